"""The ledger holds one account of capacity for each server. It confirms causes by taking them away.

For each server and each step of 10 ms: capacity = done + idle + what each cause took + unaccounted.

steps      time in steps of 10 ms, over the stretches that matter
nearby     the time around the very slow requests that is looked at
recorded   the visits around the very slow requests, as columns that the engine replays
orphans    parents for calls without one
lent       the usual work, for requests that a server never heard of
given_up   visits that their callers gave up, and until when their servers worked on them
silences   clients that had a connection, sent no whole request, and held a worker
workers    how many workers a server has, and when one took each visit
limits     what servers and pools allow
choices    which candidates each balancer had, and which it chose
policies   the policies by which a replay chooses again
losses     what each cause took of a server's capacity, by samples and events: one file for each cause
places     visits that take long by themselves, and how many places they held
stood      calls for which a server stood still
bursts     requests beyond the usual number
systems    servers that share no request
retries    requests and calls that were sent again
delays     visits that were held up without a loss of capacity
waited_for what visits waited for together: a lock, a place, or a thread
waits      visits that waited for a connection, and needed nothing from the server meanwhile
unsent     visits that waited for a connection, and gave up
accepting  when a slow server accepts connections
groups     episodes that are judged together, and which requests count for them
utilisation how busy each server usually is: so it is known how many visits it serves at full speed
account    how fast each server was, what took the rest, and the part that nothing in the recording accounts for
trial      the replay of some requests without some lines
sections   the parts of the recording that are replayed for groups of episodes
settled    the last moment before an episode at which queues were as short as usual
shares     how many very slow requests each cause is charged with
verdict    the replay without a cause: how many of the very slow requests would not have occurred
reproduced when a replay is a model of an episode
portions   the episodes of a long recording in portions, of which two are judged at the same time
books      the account of each server, and its queue in the recording and in the replay
extract    the part of the books around one episode: sums and columns
sentence   what the replay without a cause shows, in words
shown      the parts of the account that are shown: as values (`diagnosis.judged`) and as a sentence

A cause is a line of the account and knows no other cause. A line is charged with Shapley's value. This is the mean,
over all orders in which lines could be taken away, of the very slow requests that disappear with the line, so the
shares add up. But no line is charged with more than its removal removes.
"""

from tailrace.diagnosis.ledger.losses import CAUSES
from tailrace.diagnosis.ledger.sentence import SAYS, is_told, taken_away
from tailrace.diagnosis.ledger.shown import show
from tailrace.diagnosis.ledger.trial import BALANCER, BURST, RETRIES
from tailrace.diagnosis.ledger.verdict import Replayed, Share, judge

__all__ = [
    "BALANCER",
    "BURST",
    "CAUSES",
    "RETRIES",
    "SAYS",
    "Replayed",
    "Share",
    "is_told",
    "judge",
    "show",
    "taken_away",
]
