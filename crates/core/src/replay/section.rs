//! Some of the visits of a network, as a smaller network.
use super::network::Network;
use super::program::{Part, Program, Step, Visits};

impl Network {
    /// The network of these visits (in order, each at most once), without the steps of the grid
    /// before `first`. A call or a preceding root that is not among them does not exist there.
    pub fn section(&self, rows: &[u32], first: usize) -> Network {
        let (program, works) = self.programs(rows);
        let among = |roots: &[i64]| -> Vec<i64> {
            let one = |&row: &u32| place(rows, u32::try_from(roots[row as usize]).ok());
            rows.iter()
                .map(|row| one(row).map_or(-1, i64::from))
                .collect()
        };
        Network {
            visits: self.visits.of(rows),
            program,
            works,
            limits: self.limits.clone(),
            grid: self.grid.since(first),
            may_drop: only(&self.may_drop, rows),
            follows: among(&self.follows),
            repeats: among(&self.repeats),
            patience: only(&self.patience, rows),
            schedule: self.schedule.clone(),
            pool: only(&self.pool, rows),
            pools: self.pools.clone(),
            held: only(&self.held, rows),
            choice: only(&self.choice, rows),
            choices: self.choices.clone(),
            bytes: only(&self.bytes, rows),
        }
    }

    /// The programs of these visits, and the works of their parts.
    fn programs(&self, rows: &[u32]) -> (Program, Vec<f64>) {
        let (mut parts, mut works): (Vec<Part>, Vec<f64>) = (Vec::new(), Vec::new());
        let (mut steps, mut first) = (Vec::new(), vec![0]);
        for &row in rows {
            let (begin, end) = (
                self.program.first[row as usize],
                self.program.first[row as usize + 1],
            );
            for step in &self.program.steps[begin as usize..end as usize] {
                let moved = match *step {
                    Step::Work(part) => {
                        parts.push(self.program.parts[part as usize]);
                        works.push(self.works[part as usize]);
                        Some(Step::Work(parts.len() as u32 - 1))
                    }
                    Step::Send(call) => place(rows, Some(call)).map(Step::Send),
                    Step::Wait(call) => place(rows, Some(call)).map(Step::Wait),
                };
                steps.extend(moved);
            }
            first.push(steps.len() as u32);
        }
        let program = Program {
            parts,
            steps,
            first,
        };
        (program, works)
    }
}

impl Visits {
    fn of(&self, rows: &[u32]) -> Visits {
        let parent = |&row: &u32| {
            let parent = u32::try_from(self.parent[row as usize]).ok();
            place(rows, parent).map_or(-1, i64::from)
        };
        Visits {
            server: only(&self.server, rows),
            parent: rows.iter().map(parent).collect(),
            sent: only(&self.sent, rows),
            arrival: only(&self.arrival, rows),
            start: only(&self.start, rows),
            departure: only(&self.departure, rows),
            group: only(&self.group, rows),
            ready: only(&self.ready, rows),
            gives_up: only(&self.gives_up, rows),
        }
    }
}

fn only<T: Copy>(column: &[T], rows: &[u32]) -> Vec<T> {
    rows.iter().map(|&row| column[row as usize]).collect()
}

/// Where a visit is among these.
fn place(rows: &[u32], visit: Option<u32>) -> Option<u32> {
    rows.binary_search(&visit?).ok().map(|place| place as u32)
}
