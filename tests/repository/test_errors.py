"""The exception tree as it is drawn in the module: one root, exit codes, readable messages."""

import pickle

from archer import errors


def test_an_impossible_request_is_also_a_value_error() -> None:
    assert issubclass(errors.BadRequest, ValueError)
    assert issubclass(errors.Incompatible, errors.BadRequest)


def test_non_finite_logits_name_update_and_pass() -> None:
    error = errors.NonFinite(update=7, kind="cached")
    assert (error.update, error.kind) == (7, "cached")
    assert str(error).startswith("The cached pass of update 7 returned NaN or infinite logits.")


def test_non_finite_logits_survive_the_way_between_processes() -> None:
    copy = pickle.loads(pickle.dumps(errors.NonFinite(7, "full")))
    assert (copy.update, copy.kind) == (7, "full")
