"""Follow a response update by update, and see a token being taken back and changed."""

import archer

PROBLEM = """\
Define a function to multiply num by 9 and return the result.
assert work(-8) == -72
assert work(-9) == -81
assert work(-20) == -180
def work(num):"""

model = archer.load("pocket")
written: dict[int, str] = {}
for step in model.stream(PROBLEM, method="archer"):
    (call,), accepted, tokens = step.calls, step.decision.accepted[0], step.decision.tokens[0]
    for at in accepted.nonzero()[0].tolist():
        piece = model.text.piece(int(tokens[at]))
        before = written.setdefault(at, piece)
        if before != piece:
            print(f"update {step.index + 1}: position {at} was {before!r}, now {piece!r}")
        written[at] = piece
    taken = int(step.decision.remasked[0].sum())
    print(f"update {step.index + 1:2}: {call.kind:6} distance {call.distance}, {taken} taken back")
