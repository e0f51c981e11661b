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
    pub threads: usize,
}

/// None if the text is cut before the number of threads.
pub fn parse(text: &[u8]) -> Option<Process<'_>> {
    let begin = text.iter().position(|&byte| byte == b'(')? + 1;
    let end = text.iter().rposition(|&byte| byte == b')')?;
    let mut fields = words(text.get(end + 1..)?);
    Some(Process {
        name: text.get(begin..end)?,
        state: *fields.next()?.first()?,
        parent: number(fields.next()?)?.try_into().ok()?,
        major_faults: number(fields.nth(7)?)?,
        threads: number(fields.nth(7)?)?.try_into().ok()?,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::testing::damaged;
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "7 (a) R (b) S 3 7 7 0 -1 4194304 9 0 3 0 5 5 0 0 20 0 33 0 1\n";

    #[test]
    fn a_name_may_hold_anything() {
        let found = parse(TEXT.as_bytes()).unwrap();
        assert_eq!((found.name, found.state), (&b"a) R (b"[..], b'S'));
        assert_eq!((found.parent, found.threads), (3, 33));
        assert_eq!(found.major_faults, 3);
    }

    #[test]
    fn a_cut_text_is_none() {
        for text in ["", "7 (cut", "7 cut) S 3", "7 (a) S 3", ")("] {
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
