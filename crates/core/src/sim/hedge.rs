//! Calls whose answer takes long are sent a second time, to another candidate. The first answer
//! counts; the other call goes on without its caller.

use super::server::GoesOn;
use super::stay::{Status, NONE};
use super::tables::Sink;
use super::Sim;

impl<S: Sink> Sim<'_, S> {
    /// A call has waited for so long that it is sent again, unless no candidate has a free
    /// connection: a second call never waits for one. A write to all goes out once.
    #[cold]
    pub(super) fn hedge_call(&mut self, first: u32) -> GoesOn {
        let c = &mut self.stays[first];
        if c.hedges != self.now {
            return None;
        }
        c.hedges = 0;
        let (parent, number, candidate) = (c.parent, c.connector as usize, c.candidate);
        let call = self.call_of(first).filter(|call| !call.all)?;
        let after = self.stays[first].after;
        let second = self.child(parent, &call);
        self.stays[second].after = after;
        self.looks_at_states(second);
        if self.connectors[number].chooses() {
            self.stays[second].tried |= 1 << candidate;
        }
        let Some(chosen) = self.choose(second) else {
            self.stays.remove(second);
            return None;
        };
        let connector = &self.connectors[number];
        let pooled = connector.settings.pool.is_some();
        let pool = connector.pool_of(&self.stays[parent], chosen);
        let light = self.plan.classes[self.stays[parent].class as usize].light;
        if pooled && !self.may_take(pool, light) {
            self.stays.remove(second);
            return None;
        }
        (self.stays[first].other, self.stays[second].other) = (second, first);
        self.stays[second].candidate = chosen;
        if pooled {
            self.take(second, pool)
        } else {
            self.send_out(second)
        }
    }

    /// One call of a pair has ended. Returns whether its caller goes on with it: a failed one leaves
    /// that to the other.
    #[cold]
    pub(super) fn decides(&mut self, child: u32) -> bool {
        let c = &self.stays[child];
        let (parent, other, well) = (c.parent, c.other, c.status == Status::Ok);
        self.stays[other].other = NONE;
        self.stays[other].abandoned = well;
        self.stays[parent].flying -= 1;
        well
    }

    /// A call ends that its caller does not wait for.
    #[cold]
    pub(super) fn ends_unawaited(&mut self, child: u32) -> GoesOn {
        let c = &self.stays[child];
        let (number, pool, counted) = (c.connector as usize, c.pool, c.counted);
        let failed = c.status == Status::TimedOut && self.connectors[number].has_errors();
        self.leaves_candidate(child, failed);
        self.stays.remove(child);
        self.gives_back(number, pool, counted);
        None
    }
}
