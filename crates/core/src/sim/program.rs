//! Programs in the form that servers run: in one list, with every index of the plan resolved once.

use super::plan::{self, Plan, Time};
use crate::rng::Stream;

/// The end of a program; also the whole program of a class that never comes.
pub const END: u32 = 0;

pub enum Step {
    Compute {
        group: u32,
        tier: u32,
        time: Time,
    },
    /// Only time passes: a synchronous server keeps its worker and uses no CPU.
    Wait(Time),
    Call(Call),
    End,
}

#[derive(Clone, Copy)]
pub struct Call {
    /// Its index among the steps of all programs.
    pub at: u32,
    /// Among the connectors of all servers.
    pub connector: u32,
    pub class: u32,
    /// The least number of calls, and the probability of one more.
    pub count: u32,
    pub chance: f64,
    pub parallel: bool,
    pub all: bool,
    /// The next step is a call, too, and begins at the same time.
    pub with_next: bool,
}

impl Call {
    /// How many calls a visit makes.
    #[inline(always)]
    pub fn draw(&self, stream: &mut Stream) -> u32 {
        let more = self.chance > 0.0 && stream.uniform() < self.chance;
        self.count + u32::from(more)
    }

    /// Whether all of them begin at once.
    #[inline(always)]
    pub fn abreast(&self) -> bool {
        self.parallel || self.all
    }
}

/// Appends the programs of a server whose connectors begin at `first_connector`; returns where that
/// of each class begins.
pub fn lay_out(
    plan: &Plan,
    server: &plan::Server,
    first_connector: u32,
    steps: &mut Vec<Step>,
) -> Vec<u32> {
    let mut begins = Vec::new();
    for program in &server.programs {
        begins.push(program.map_or(END, |_| steps.len() as u32));
        let Some(program) = program else {
            continue;
        };
        let program = &plan.programs[*program as usize];
        let first_call = program.iter().position(|step| !step.calls().is_empty());
        let tier = |at: usize| match server.first {
            Some(first) if first_call.is_some_and(|call| at < call) => first,
            _ => server.tier,
        };
        for (at, step) in program.iter().enumerate() {
            match step {
                plan::Step::Compute(time) => steps.push(Step::Compute {
                    group: server.group,
                    tier: tier(at),
                    time: time.clone(),
                }),
                plan::Step::Wait(time) => steps.push(Step::Wait(time.clone())),
                plan::Step::Call(_) | plan::Step::Join(_) => {
                    add_calls(step.calls(), first_connector, steps);
                }
            }
        }
        steps.push(Step::End);
    }
    begins
}

fn add_calls(calls: &[plan::Call], first_connector: u32, steps: &mut Vec<Step>) {
    for (number, call) in calls.iter().enumerate() {
        steps.push(Step::Call(Call {
            at: steps.len() as u32,
            connector: first_connector + call.connector,
            class: call.class,
            count: call.count as u32,
            chance: call.count.fract(),
            parallel: call.parallel,
            all: call.all,
            with_next: number + 1 < calls.len(),
        }));
    }
}
