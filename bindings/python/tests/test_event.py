"""Events as values: `test_event.py`. Prints `ok`."""

import copy
import pickle

from barewire import Event, Kind
from expect import raises

event = Event(Kind.MESSAGE, 7, 0, 3, b"there", None, "10.0.0.2:888")
same = Event(kind=4, flow=7, reason=0, token=3, data=b"there", local=None, remote="10.0.0.2:888")
assert event == same and hash(event) == hash(same)
for field, other in [("kind", 9), ("flow", 8), ("reason", 1), ("token", 4), ("data", b"here"), ("local", "a"), ("remote", None)]:
    fields = {name: getattr(event, name) for name in Event.__match_args__}
    assert Event(**(fields | {field: other})) != event, field
assert event != (4, 7, 0, 3, b"there", None, "10.0.0.2:888")
assert repr(event) == "Event(kind=4, flow=7, reason=0, token=3, data=b'there', local=None, remote='10.0.0.2:888')"
assert copy.copy(event) == event and pickle.loads(pickle.dumps(event)) == event
match event:
    case Event(Kind.MESSAGE, flow, _, _, data):
        assert (flow, data) == (7, b"there")
    case _:
        raise AssertionError("it matches")
raises(AttributeError, lambda: setattr(event, "kind", 1))
raises(TypeError, lambda: Event(4, 7, 0, 3, "text", None, None))
print("ok")
