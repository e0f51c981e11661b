"""These quantities mean the same in several steps of the diagnosis, so each has one value."""

from tailrace.units import MILLISECOND, SECOND

MOSTLY = 0.5
"""Most of a time or of a number is at least a half of it."""
HARDLY_ANY = 0.1
"""Hardly any are one of ten."""
NEARLY = 1.0 - HARDLY_ANY
"""Nearly all are nine of ten: a tenth may be so for another reason."""
RARE = 0.05
"""What occurs once in twenty times is rare."""
ALIKE = 0.05
"""Numbers, shares and lengths that differ by less than a twentieth are equal: so large is the error of a replay or of a
measurement. Visits are as long as each other if they wait for the same timer, compute the same, or end together."""
MATTERS = 0.02
"""A part of the time, or what a cause changes alone or on top of the others, is left out if it is less than a
fiftieth."""
ACTS = 0.01
"""A cause that takes less than a hundredth of a server in a step does not act in it."""
APART = 1.25
"""Two groups of times, or two rates, are apart if one is 1.25 times the other: those of one group differ by a tenth."""

CHANCE = 0.01
"""What chance produces in less than one of a hundred cases does not count as chance."""
SIGMAS = 4.0
"""A number exceeds its mean by four standard deviations in one of 30,000 cases by chance. A binomial share of n has a
variance of at most 0.25 / n, and a Poisson number has its mean as its variance."""
EXPECTED = 10.0
"""In a time in which so many events usually occur, none occurs by chance once in 22,000 times (Poisson)."""
SEVERAL = 3
"""Two may be alike by chance, or slow by themselves, so three are needed."""
LEAST_LIMIT = 5
"""Below five, a difference of one shows nothing about a limit."""
FEW = 10
"""Of fewer, a share of nine in ten or a mean shows nothing. A page of one user sends up to nine requests at once."""
MANY = 20
"""Of so many, one is a twentieth. The number of those that come in a time varies by a quarter (Poisson), and the rank
correlation of so many pairs exceeds 0.7 by chance in one of 1,000 cases. By chance, so many choices of one of two
candidates agree with a policy in one of a million recordings."""
MOMENTS = 2000
"""If something is looked at so often, its share is known to a thousandth or two."""
QUICK = 3.0
"""In seven of eight cases, an exponential service time is at most three medians. The median of ten such times hardly
ever exceeds that."""

STEP_NS = 10 * MILLISECOND
"""Capacity is followed at this step: a fifth of the shortest stalls."""
FINE_NS = STEP_NS // 2
"""Queues are followed at this step. The waves of `lightning` figure 6 take tens of milliseconds per server."""
SHORTEST_NS = 2 * STEP_NS
"""A shorter wait, rise or loss fills no other queue and delays no request by seconds."""
WINDOW_NS = 5 * STEP_NS
"""It is the default window. The shortest stalls of the papers last as long (`lightning` 3.1)."""
LONG_NS = 2 * WINDOW_NS
"""It is two default windows. What lasts for less time makes no visit wait for long. A queue that is as usual for less
time may be about to grow again: a stalled balancer sleeps for so long."""
REPEATED_NS = 200 * MILLISECOND
"""The least retransmission timeout of Linux (`TCP_RTO_MIN`): no sender repeats sooner. A kernel counts a drop within
this time after the packet was sent."""
LOOKBACK_NS = 2 * SECOND
"""A cause acts up to this long before the first very slow request: the longest queue in the papers drains in less
time. So a queue is followed from there on, and from earlier if it was up already."""
