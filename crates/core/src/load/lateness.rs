//! Is the load generator itself on time? If a timer fires too late, this process did not run or was
//! overloaded. Measurements since the timer was due then describe the generator rather than the
//! servers.

/// Stretches of time in which something was late; those that touch are merged.
#[derive(Debug)]
pub struct Lateness {
    after: i64,
    /// Begin, end and largest delay of the stretch that may still grow.
    open: Option<(i64, i64, i64)>,
    pub worst: i64,
}

impl Lateness {
    pub fn new(after: i64) -> Self {
        Lateness {
            after,
            open: None,
            worst: 0,
        }
    }

    /// A timer that was due then fired now. Returns a stretch that is complete.
    #[inline]
    pub fn fired(&mut self, due: i64, now: i64) -> Option<(i64, i64, i64)> {
        let late = now - due;
        self.worst = self.worst.max(late);
        if late <= self.after {
            return None;
        }
        match &mut self.open {
            Some((begin, end, worst)) if due <= *end => {
                *begin = due.min(*begin);
                *end = now.max(*end);
                *worst = late.max(*worst);
                None
            }
            open => open.replace((due, now, late)),
        }
    }

    pub fn finish(&mut self) -> Option<(i64, i64, i64)> {
        self.open.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_that_touch_become_one() {
        let mut lateness = Lateness::new(10);
        assert_eq!(lateness.fired(0, 10), None, "no more than is allowed");
        assert_eq!(lateness.fired(100, 150), None);
        assert_eq!(lateness.fired(120, 160), None, "within the first");
        assert_eq!(lateness.fired(300, 320), Some((100, 160, 50)));
        assert_eq!(lateness.finish(), Some((300, 320, 20)));
        assert_eq!(lateness.finish(), None);
        assert_eq!(lateness.worst, 50);
    }
}
