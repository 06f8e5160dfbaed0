"""Conditions and mappings on the elements of an iterable, by the kind of element."""

from __future__ import annotations

from pocket_training.generator.operations import Operation as Op

NUMBER_CONDITIONS = (
    Op("even", ("{v} % 2 == 0",), ("are even",), negated="{v} % 2 != 0"),
    Op("odd", ("{v} % 2 == 1", "{v} % 2 != 0"), ("are odd",), negated="{v} % 2 == 0"),
    Op("positive", ("{v} > 0",), ("are positive",), negated="{v} <= 0"),
    Op("negative", ("{v} < 0",), ("are negative",), negated="{v} >= 0"),
    Op("gt", ("{v} > {c}",), ("are greater than {c}", "are above {c}"), ("limit",), "{v} <= {c}"),
    Op("lt", ("{v} < {c}",), ("are less than {c}", "are below {c}"), ("limit",), "{v} >= {c}"),
    Op("ge", ("{v} >= {c}",), ("are at least {c}",), ("limit",), "{v} < {c}"),
    Op("le", ("{v} <= {c}",), ("are at most {c}",), ("limit",), "{v} > {c}"),
    Op(
        "ne",
        ("{v} != {c}",),
        ("are not equal to {c}", "are different from {c}"),
        ("limit",),
        "{v} == {c}",
    ),
    Op(
        "divisible",
        ("{v} % {c} == 0",),
        ("are divisible by {c}", "are multiples of {c}"),
        ("factor",),
        "{v} % {c} != 0",
    ),
    Op(
        "indivisible",
        ("{v} % {c} != 0",),
        ("are not divisible by {c}", "are not multiples of {c}"),
        ("factor",),
        "{v} % {c} == 0",
    ),
    Op("between", ("{c} <= {v} <= {d}",), ("are between {c} and {d}",), ("low", "high")),
)

MEMBER_CONDITIONS = (
    Op("member", ("{v} in {o}",), ("are in {o}", "also appear in {o}"), negated="{v} not in {o}"),
    Op(
        "absent",
        ("{v} not in {o}",),
        ("are not in {o}", "do not appear in {o}"),
        negated="{v} in {o}",
    ),
)

NUMBER_MAPS = (
    Op("square", ("{v} * {v}", "{v} ** 2"), ("square {it}", "take the square of {it}")),
    Op("double", ("{v} * 2", "{v} + {v}"), ("double {it}",)),
    Op("half", ("{v} // 2",), ("halve {it} and round down",)),
    Op("negate", ("-{v}",), ("negate {it}", "change the sign of {it}")),
    Op("abs", ("abs({v})",), ("take the absolute value of {it}",)),
    Op("plus", ("{v} + {c}",), ("add {c} to {it}", "increase {it} by {c}"), ("amount",)),
    Op("minus", ("{v} - {c}",), ("subtract {c} from {it}", "decrease {it} by {c}"), ("amount",)),
    Op("times", ("{v} * {c}",), ("multiply {it} by {c}",), ("factor",)),
    Op("from", ("{c} - {v}",), ("subtract {it} from {c}",), ("amount",)),
    Op("mod", ("{v} % {c}",), ("take {it} modulo {c}", "reduce {it} modulo {c}"), ("factor",)),
    Op("over", ("{v} // {c}",), ("divide {it} by {c} and round down",), ("factor",)),
    Op("cap", ("min({v}, {c})",), ("limit {it} to at most {c}",), ("limit",)),
    Op("floor", ("max({v}, {c})",), ("raise {it} to at least {c}",), ("limit",)),
    Op("text", ("str({v})",), ("convert {it} to a string",), kind="str"),
)

WORD_CONDITIONS = (
    Op(
        "longer",
        ("len({v}) > {c}",),
        ("are longer than {c}", "have more than {c} letters"),
        ("count",),
        "len({v}) <= {c}",
    ),
    Op(
        "shorter",
        ("len({v}) < {c}",),
        ("are shorter than {c}", "have less than {c} letters"),
        ("count",),
        "len({v}) >= {c}",
    ),
    Op("size", ("len({v}) == {c}",), ("have {c} letters",), ("count",), "len({v}) != {c}"),
    Op("even", ("len({v}) % 2 == 0",), ("have even length",), negated="len({v}) % 2 != 0"),
    Op("starts", ("{v}.startswith({c})",), ("start with {c}",), ("letter",)),
    Op("finishes", ("{v}.endswith({c})",), ("end with {c}",), ("letter",)),
    Op("contains", ("{c} in {v}",), ("contain {c}",), ("letter",), "{c} not in {v}"),
    Op("lacks", ("{c} not in {v}",), ("do not contain {c}",), ("letter",), "{c} in {v}"),
    Op("palindrome", ("{v} == {v}[::-1]",), ("are palindromes",), negated="{v} != {v}[::-1]"),
)

WORD_MAPS = (
    Op("upper", ("{v}.upper()",), ("convert {it} to upper case",)),
    Op("title", ("{v}.title()",), ("capitalize {it}",)),
    Op("reverse", ("{v}[::-1]",), ("reverse {it}",)),
    Op("length", ("len({v})",), ("take the length of {it}",), kind="int"),
    Op("initial", ("{v}[:1]",), ("take the first letter of {it}",)),
    Op("head", ("{v}[:{c}]",), ("take the first {c} letters of {it}",), ("count",)),
    Op("tail", ("{v}[{c}:]",), ("remove the first {c} letters of {it}",), ("count",)),
    Op("repeat", ("{v} * {c}",), ("repeat {it} {c} times",), ("count",)),
    Op("append", ("{v} + {c}",), ("append {c} to {it}",), ("letter",)),
    Op("prepend", ("{c} + {v}",), ("put {c} before {it}",), ("letter",)),
    Op("tally", ("{v}.count({c})",), ("count the letter {c} in {it}",), ("letter",), kind="int"),
    Op("drop", ("{v}.replace({c}, '')",), ("remove the letter {c} from {it}",), ("letter",)),
)

PAIR_CONDITIONS = (
    Op("first", ("{a} > {b}",), ("have a larger first number",), negated="{a} <= {b}"),
    Op("second", ("{a} < {b}",), ("have a larger second number",), negated="{a} >= {b}"),
    Op("same", ("{a} == {b}",), ("are equal",), negated="{a} != {b}"),
    Op("other", ("{a} != {b}",), ("are different",), negated="{a} == {b}"),
    Op("even", ("({a} + {b}) % 2 == 0",), ("have an even sum",), negated="({a} + {b}) % 2 != 0"),
    Op("total", ("{a} + {b} > {c}",), ("have a sum above {c}",), ("limit",), "{a} + {b} <= {c}"),
    Op("near", ("abs({a} - {b}) < {c}",), ("differ by less than {c}",), ("limit",)),
    Op("least", ("{a} > {c}",), ("have a first number above {c}",), ("limit",), "{a} <= {c}"),
    Op("most", ("{b} > {c}",), ("have a second number above {c}",), ("limit",), "{b} <= {c}"),
)

PAIR_MAPS = (
    Op("sum", ("{a} + {b}",), ("add {it}", "take the sum of {it}"), kind="int"),
    Op("product", ("{a} * {b}",), ("multiply {it}", "take the product of {it}"), kind="int"),
    Op("difference", ("{a} - {b}",), ("subtract the second from the first of {it}",), kind="int"),
    Op("back", ("{b} - {a}",), ("subtract the first from the second of {it}",), kind="int"),
    Op("gap", ("abs({a} - {b})",), ("take the absolute difference of {it}",), kind="int"),
    Op("larger", ("max({a}, {b})",), ("take the larger of {it}",), kind="int"),
    Op("smaller", ("min({a}, {b})",), ("take the smaller of {it}",), kind="int"),
    Op("swap", ("({b}, {a})",), ("swap {it}",), kind="pair"),
    Op("more", ("{a} + {b} + {c}",), ("add {it} and then {c}",), ("amount",), kind="int"),
    Op(
        "weigh",
        ("{a} * {c} + {b}",),
        ("add {c} times the first to the second of {it}",),
        ("factor",),
        kind="int",
    ),
    Op("dot", ("{a} * {b} - {c}",), ("multiply {it} and subtract {c}",), ("amount",), kind="int"),
)

ENTRY_CONDITIONS = (
    Op("even", ("{b} % 2 == 0",), ("have an even value",), negated="{b} % 2 != 0"),
    Op("odd", ("{b} % 2 == 1",), ("have an odd value",), negated="{b} % 2 != 1"),
    Op("gt", ("{b} > {c}",), ("have a value above {c}",), ("limit",), "{b} <= {c}"),
    Op("lt", ("{b} < {c}",), ("have a value below {c}",), ("limit",), "{b} >= {c}"),
    Op("ne", ("{b} != {c}",), ("have a value different from {c}",), ("limit",), "{b} == {c}"),
    Op("divisible", ("{b} % {c} == 0",), ("have a value divisible by {c}",), ("factor",)),
    Op("not", ("{a} != {c}",), ("have a key different from {c}",), ("letter",)),
    Op("after", ("{a} > {c}",), ("have a key after {c}",), ("letter",)),
)

ENTRY_MAPS = (
    Op("key", ("{a}",), ("take the key of {it}",), kind="str"),
    Op("value", ("{b}",), ("take the value of {it}",), kind="int"),
    Op("square", ("{b} * {b}", "{b} ** 2"), ("square the value of {it}",), kind="int"),
    Op("plus", ("{b} + {c}",), ("add {c} to the value of {it}",), ("amount",), kind="int"),
    Op("times", ("{b} * {c}",), ("multiply the value of {it} by {c}",), ("factor",), kind="int"),
    Op("repeat", ("{a} * {b}",), ("repeat the key of {it} by its value",), kind="str"),
    Op("swap", ("({b}, {a})",), ("swap key and value of {it}",), kind="pair"),
    Op("upper", ("{a}.upper()",), ("convert the key of {it} to upper case",), kind="str"),
)
