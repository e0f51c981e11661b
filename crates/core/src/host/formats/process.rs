//! `/proc/PID/stat`, and that of a thread: `PID (NAME) STATE PARENT …`, where the name may hold anything.

use super::{number, words};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process<'t> {
    pub name: &'t [u8],
    /// The letter of proc_pid_stat(5).
    pub state: u8,
    pub parent: i32,
    /// How often its threads waited for a page that was read from a disk.
    pub major_faults: u64,
    /// CPU time of the children that it has waited for, and of their own, in ticks of the clock.
    pub children_ticks: u64,
    pub threads: usize,
    /// When it began, in ticks of the clock since boot.
    pub began_ticks: u64,
}

/// None if the text is cut before the time of its begin.
pub fn parse(text: &[u8]) -> Option<Process<'_>> {
    let begin = text.iter().position(|&byte| byte == b'(')? + 1;
    let end = text.iter().rposition(|&byte| byte == b')')?;
    let mut fields = words(text.get(end + 1..)?);
    Some(Process {
        name: text.get(begin..end)?,
        state: *fields.next()?.first()?,
        parent: number(fields.next()?)?.try_into().ok()?,
        major_faults: number(fields.nth(7)?)?,
        children_ticks: number(fields.nth(3)?)?.saturating_add(number(fields.next()?)?),
        threads: number(fields.nth(2)?)?.try_into().ok()?,
        began_ticks: number(fields.nth(1)?)?,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::testing::damaged;
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "7 (a) R (b) S 3 7 7 0 -1 4194304 9 0 3 0 5 5 6 7 20 0 33 0 19\n";

    #[test]
    fn a_name_may_hold_anything() {
        let found = parse(TEXT.as_bytes()).unwrap();
        assert_eq!((found.name, found.state), (&b"a) R (b"[..], b'S'));
        assert_eq!((found.parent, found.threads), (3, 33));
        assert_eq!(found.major_faults, 3);
        assert_eq!((found.children_ticks, found.began_ticks), (13, 19));
    }

    #[test]
    fn a_cut_text_is_none() {
        for text in ["", "7 (cut", "7 cut) S 3", "7 (a) S 3", ")(", &TEXT[..58]] {
            assert_eq!(parse(text.as_bytes()), None);
        }
    }

    proptest! {
        #[test]
        fn damaged_text_does_no_harm(text in damaged(TEXT)) {
            let _ = parse(&text);
        }
    }
}
