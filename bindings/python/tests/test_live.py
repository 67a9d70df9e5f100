"""A live channel beside a capture of the same packets: `test_live.py CAPTURE CHANNEL UDP_PORT`. Prints `ready` when it listens, and `ok`."""

import sys
import threading

from barewire.feed import Book, Capture, FeedError, Live, Statistic, Trade

capture, channel, udp_port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
where = {"channel": channel, "udp_port": udp_port}
trades = {(t.seq_num, t.security_id, t.price, t.quantity, t.trade_id) for t in Capture(capture, items=["trades"], **where)}
assert len(trades) > 10


def raises(work, *args, **named):
    try:
        work(*args, **named)
    except FeedError as e:
        return str(e)
    raise AssertionError("FeedError was not raised")


assert "candles" in raises(Live, items=["candles"], **where)
assert "nosuch0" in raises(Live, interface="nosuch0", **where)
raises(Live, "/nowhere.toml")

with Live(**where) as live:
    assert live.next_batch(timeout=0.01) == [], "nobody sends yet"
    print("ready", flush=True)
    got: list[Book | Trade | Statistic] = []
    while sum(isinstance(item, Trade) for item in got) < 10 or sum(isinstance(item, Book) for item in got) < 100:
        batch = live.next_batch(timeout=60)
        assert batch, "items come"
        got += batch
for item in got:
    assert item.stamp_source in ("kernel", "hardware", "engine") and item.channel == channel
    if isinstance(item, Trade):
        assert (item.seq_num, item.security_id, item.price, item.quantity, item.trade_id) in trades
assert live.lost == 0
# What was kept can still be taken; then it is over.
for item in live:
    assert item.channel == channel
assert live.next_batch() is None

# A wait of another thread ends with the feed, and so does a callback's.
heard: list[object] = []
live = Live(**where)
waiter = threading.Thread(target=live.listen, args=(heard.append,))
waiter.start()
live.close()
waiter.join()
print("ok")
