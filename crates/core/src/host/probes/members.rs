//! The sampled processes.

use super::groups::Group;
use super::reaped::Reaped;
use super::states::States;

/// The number of rounds with almost no CPU time after which a process rests: it is then read only now and then, and
/// equally many resting ones in each round. A process that listens rests only after rounds without any CPU time.
pub const REST: u8 = 20;
pub const NOW_AND_THEN: u64 = 4;

pub struct Member {
    pub parent: i32,
    pub name: String,
    pub used: i64,
    pub listens: bool,
    /// It listens, or began as a child of a process that does, or of a child of that.
    pub of_server: bool,
    /// A check has not confirmed its groups yet.
    pub assumed: bool,
    /// Rounds since it used more than a little, at most [`REST`].
    pub idle: u8,
    /// At the last reading, if it listens; None before the first.
    pub states: Option<States>,
    pub reaped: Reaped,
    /// Rounds in which what its children used may still become known.
    pub bereaved: u8,
    pub groups: Vec<usize>,
}

impl Member {
    /// Nothing of it was sampled yet.
    pub fn new(name: String, parent: i32, groups: Vec<usize>) -> Member {
        Member {
            parent,
            name,
            used: 0,
            listens: false,
            of_server: false,
            assumed: false,
            idle: 0,
            states: None,
            reaped: Reaped::default(),
            bereaved: 0,
            groups,
        }
    }

    /// It is not read in this round.
    pub fn rests(&self, pid: i32, round: u64, unseen: bool) -> bool {
        let turn = (round + u64::from(pid.unsigned_abs())) % NOW_AND_THEN == 0;
        let may_miss = unseen && self.listens && self.reaped.has_children();
        self.idle == REST && !turn && !may_miss
    }
}

/// Does this to each group of a process.
pub fn each(groups: &mut [Group], member: &Member, mut change: impl FnMut(&mut Group)) {
    for &number in &member.groups {
        if let Some(group) = groups.get_mut(number) {
            change(group);
        }
    }
}
