"""A twin of a recording: an experiment that repeats it in the simulator, so that changes can be tried on it.

pauses     visits that wait inside a server and use nothing of it
structure  servers as tiers: the candidates of one balancer are one tier
tree       kinds of visits: those that make the same calls
adoption   calls whose caller the recording lost
inference  limits of servers that no topology states, where the recording shows them
cpu        the ledger's account of capacity in terms of CPU time
demands    what visits need: CPU time, and time that they neither compute nor call
limits     workers, queues, connections, retransmission; and what the recording does not show
origins    where the values of settings come from
clients    requests as they came: recorded times, or think times after an answer
machines   nodes, and servers that share one
governors  clock rates that follow the load      quotas  CPU quotas that run out by themselves
habits     what clients do without an answer
paths      packets that were lost on their way
learning   all of these as one experiment, and each line of the ledger as a loss of capacity
idle       what servers lacked while no visit was inside
silent     clients that sent nothing
stops      whether what takes capacity stops the processes of a server
model      the twin and its files
cutting    the part of a long recording that a change can matter in
outcome    what became of the requests of a run
equals     candidates of a balancer that nothing tells apart
spread     how much runs of a twin differ
gate       whether the twin repeats the recording
"""

from tailrace.twin.gate import Gate, gate
from tailrace.twin.learning import learn
from tailrace.twin.limits import Unknown
from tailrace.twin.model import Twin

__all__ = ["Gate", "Twin", "Unknown", "gate", "learn"]
