//! `_core.Replay`: the visits of a recording as the network of queues that they came from.
use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tailrace_core::replay::{
    in_order, Capacity, Grid, Held, Limits, Network, Program, Step, Visits, KINDS,
};

/// The least number of known parts in a group for measuring its demand.
const LEAST: u32 = 10;
/// A server is treated as serving in turn if that leaves less than half unaccounted for.
const CLEARLY: f64 = 2.0;
/// A server serves in turn if so many of at least `PAIRS` parts that were there together left in order.
/// Of two parts that share the cores, and whose demands vary, more than one in twenty overtakes.
const IN_ORDER: f64 = 0.95;
const PAIRS: usize = 30;

#[pyclass(module = "tailrace._core")]
pub struct Replay {
    visits: Visits,
    program: Program,
    grid: Grid,
    groups: usize,
    limits: Vec<Limits>,
    servers: Vec<Capacity>,
    works: Vec<f64>,
    may_turn: Vec<bool>,
    may_drop: Vec<bool>,
    follows: Vec<i64>,
    schedule: Vec<i64>,
    pool: Vec<u32>,
    pools: Vec<u32>,
    held: Vec<u32>,
    choice: Vec<u32>,
    choices: Vec<Vec<(u32, u32)>>,
}

fn column<T: Element>(py: Python<'_>, table: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<T>> {
    PyBuffer::<T>::get(&table.get_item(name)?)?.to_vec(py)
}

fn flags(py: Python<'_>, table: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<bool>> {
    Ok(column::<u8>(py, table, name)?
        .into_iter()
        .map(|flag| flag != 0)
        .collect())
}

fn times(py: Python<'_>, visits: &Bound<'_, PyAny>) -> PyResult<Visits> {
    Ok(Visits {
        server: column(py, visits, "server")?,
        parent: column(py, visits, "parent")?,
        sent: column(py, visits, "sent")?,
        arrival: column(py, visits, "arrival")?,
        start: column(py, visits, "start")?,
        departure: column(py, visits, "departure")?,
        group: column(py, visits, "group")?,
        ready: column(py, visits, "ready")?,
    })
}

#[pymethods]
impl Replay {
    #[new]
    #[pyo3(signature = (visits, servers, *, groups, begin, step, steps, schedule, pools, choices))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        visits: &Bound<'_, PyAny>,
        servers: &Bound<'_, PyAny>,
        groups: usize,
        begin: i64,
        step: i64,
        steps: usize,
        schedule: Vec<i64>,
        pools: Vec<u32>,
        choices: Vec<Vec<(u32, u32)>>,
    ) -> PyResult<Replay> {
        let limits = limits(py, servers)?;
        let columns = times(py, visits)?;
        let may_turn = flags(py, servers, "may_turn")?;
        let (may_drop, pool) = (flags(py, visits, "may_drop")?, column(py, visits, "pool")?);
        let (held, choice) = (column(py, visits, "held")?, column(py, visits, "choice")?);
        let follows: Vec<i64> = column(py, visits, "follows")?;
        let lengths = [
            may_drop.len(),
            pool.len(),
            held.len(),
            choice.len(),
            follows.len(),
        ];
        let fits = lengths.iter().all(|&n| n == columns.len())
            && may_turn.len() == limits.len()
            && follows.iter().all(|&before| before < columns.len() as i64)
            && choices
                .iter()
                .flatten()
                .all(|&(server, _)| (server as usize) < limits.len());
        if !fits || !columns.hold_together(limits.len(), groups) {
            return Err(PyValueError::new_err(
                "columns of unequal length, or numbers that name nothing",
            ));
        }
        py.detach(|| {
            let (program, grid) = (Program::of(&columns), Grid::new(begin, step, steps));
            let of_each = limits.iter().enumerate();
            let servers = of_each
                .map(|(i, one)| Capacity::of(&program.parts, i as u32, one.cores, grid, false))
                .collect();
            let works = vec![0.0; program.parts.len()];
            Ok(Replay {
                visits: columns,
                program,
                grid,
                groups: groups * KINDS as usize,
                limits,
                servers,
                works,
                may_turn,
                may_drop,
                follows,
                schedule,
                pool,
                pools,
                held,
                choice,
                choices,
            })
        })
    }

    /// The capacities that fit best, found from `prior`, by server and step. Of the service
    /// disciplines, the one that leaves least unaccounted for is chosen.
    fn fit(
        &mut self,
        py: Python<'_>,
        prior: PyBuffer<f64>,
        calm: PyBuffer<u8>,
        rounds: u32,
    ) -> PyResult<Vec<Vec<f64>>> {
        let (prior, calm) = (self.by_server(py, &prior)?, self.calm(py, &calm)?);
        let (program, grid, groups, may_turn) =
            (&self.program, self.grid, self.groups, &self.may_turn);
        let one = |limits: &mut Limits, shared: &mut Capacity, server: usize| {
            let prior = &prior[server];
            // What a server without work lacks delays nothing, and what it lacks in calm steps is chance.
            let at_work = shared.at_work(grid);
            let lacking = |found: &[f64]| {
                (0..grid.steps)
                    .filter(|&step| !calm[step])
                    .map(|step| (prior[step] - found[step]).max(0.0) * at_work[step])
                    .sum::<f64>()
            };
            let all_at_once = shared.found(prior, &calm, groups, LEAST, rounds);
            if !may_turn[server] {
                return all_at_once;
            }
            // An event loop on each core, or only one.
            let mut loops = vec![limits.cores, 1.0];
            loops.dedup();
            let mut best = all_at_once;
            for cores in loops {
                let turns = Capacity::of(&program.parts, server as u32, cores, grid, true);
                let in_turn = turns.found(prior, &calm, groups, LEAST, rounds);
                if lacking(&in_turn) * CLEARLY < lacking(&best) {
                    (limits.in_turn, limits.cores, *shared, best) = (true, cores, turns, in_turn);
                }
            }
            best
        };
        let each = self.limits.iter_mut().zip(&mut self.servers).enumerate();
        Ok(py.detach(|| {
            each.map(|(server, (limits, shared))| one(limits, shared, server))
                .collect()
        }))
    }

    /// Measure the works of servers that may be event loops, and whose visits leave in order, as served
    /// in turn.
    fn take_turns(&mut self, py: Python<'_>) {
        py.detach(|| {
            let (parts, grid) = (&self.program.parts, self.grid);
            let each = self
                .limits
                .iter_mut()
                .zip(&mut self.servers)
                .zip(&self.may_turn);
            for (server, ((limits, shared), may_turn)) in each.enumerate() {
                let server = server as u32;
                if !may_turn || limits.in_turn {
                    continue;
                }
                let (together, ordered) = in_order(parts, server);
                if together >= PAIRS && ordered as f64 >= IN_ORDER * together as f64 {
                    limits.in_turn = true;
                    *shared = Capacity::of(parts, server, limits.cores, grid, true);
                }
            }
        });
    }

    /// For each span of steps, two values of the parts that work at a server in it: the variance of
    /// their demand, and by how much the work that they attain in it at `prior`, its capacity, exceeds it.
    fn excess(
        &self,
        py: Python<'_>,
        server: usize,
        prior: PyBuffer<f64>,
        calm: PyBuffer<u8>,
        spans: Vec<(usize, usize)>,
    ) -> PyResult<Vec<(f64, f64)>> {
        let (prior, calm) = (prior.to_vec(py)?, self.calm(py, &calm)?);
        if prior.len() != self.grid.steps {
            return Err(PyValueError::new_err("a capacity for each step"));
        }
        let fit = self
            .servers
            .get(server)
            .ok_or_else(|| PyValueError::new_err("no such server"))?;
        let needs = fit.needs(&fit.works(&prior), &calm, self.groups, LEAST);
        Ok(fit.excess(&prior, &needs, &spans))
    }

    /// The number of cores of each server: those whose utilisation is `busy`.
    #[getter]
    fn cores(&self) -> Vec<f64> {
        self.limits.iter().map(|one| one.cores).collect()
    }

    /// Nanoseconds that the cores of a server are at work in each step.
    fn busy(&self, server: usize) -> PyResult<Vec<f64>> {
        let one = self.servers.get(server);
        one.map(|one| one.busy(self.grid.steps))
            .ok_or_else(|| PyValueError::new_err("no such server"))
    }

    /// Measure what each part needed, at these capacities.
    fn measure(&mut self, py: Python<'_>, capacity: PyBuffer<f64>) -> PyResult<()> {
        let capacity = self.by_server(py, &capacity)?;
        for (fit, capacity) in self.servers.iter().zip(&capacity) {
            for (&part, work) in fit.which.iter().zip(fit.works(capacity)) {
                self.works[part as usize] = work;
            }
        }
        Ok(())
    }

    /// What each visit needed by `measure`, in nanoseconds at full speed: before its first call, and
    /// as a whole.
    fn works(&self, py: Python<'_>, before: PyBuffer<f64>, whole: PyBuffer<f64>) -> PyResult<()> {
        let (mut first, mut all) = (Vec::new(), Vec::new());
        for span in self.program.first.windows(2) {
            let (mut calls, mut sums) = (false, (0.0, 0.0));
            for step in &self.program.steps[span[0] as usize..span[1] as usize] {
                match step {
                    Step::Work(part) => {
                        let work = self.works[*part as usize];
                        sums = (sums.0 + if calls { 0.0 } else { work }, sums.1 + work);
                    }
                    Step::Send(_) => calls = true,
                    Step::Wait(_) => {}
                }
            }
            first.push(sums.0);
            all.push(sums.1);
        }
        before.copy_from_slice(py, &first)?;
        whole.copy_from_slice(py, &all)
    }

    /// Run at these capacities; writes when each visit is first sent, leaves and arrives into
    /// `sent`, `departure` and `arrival`. `late` and `pause` hold up each visit before its arrival and after its start.
    #[pyo3(signature = (capacity, sent, anew, departure, arrival=None, late=None, pause=None))]
    #[allow(clippy::too_many_arguments)]
    fn run(
        &self,
        py: Python<'_>,
        capacity: PyBuffer<f64>,
        sent: PyBuffer<i64>,
        anew: Vec<bool>,
        departure: PyBuffer<i64>,
        arrival: Option<PyBuffer<i64>>,
        late: Option<PyBuffer<i64>>,
        pause: Option<PyBuffer<i64>>,
    ) -> PyResult<()> {
        let (capacity, sent_at) = (self.by_server(py, &capacity)?, sent);
        let sent = sent_at.to_vec(py)?;
        let mut held = Held::nothing(self.visits.len());
        if let Some(late) = late {
            held.late = late.to_vec(py)?;
        }
        if let Some(pause) = pause {
            held.pause = pause.to_vec(py)?;
        }
        let lengths = [sent.len(), held.late.len(), held.pause.len()];
        if lengths.iter().any(|&n| n != self.visits.len()) {
            return Err(PyValueError::new_err("a time for each visit"));
        }
        let outcome = py.detach(|| {
            let network = Network {
                visits: &self.visits,
                program: &self.program,
                works: &self.works,
                limits: &self.limits,
                grid: self.grid,
                may_drop: &self.may_drop,
                follows: &self.follows,
                schedule: &self.schedule,
                pool: &self.pool,
                pools: &self.pools,
                held: &self.held,
                choice: &self.choice,
                choices: &self.choices,
            };
            network.run(&capacity, &sent, &anew, &held)
        });
        sent_at.copy_from_slice(py, &outcome.sent)?;
        if let Some(arrival) = arrival {
            arrival.copy_from_slice(py, &outcome.arrival)?;
        }
        departure.copy_from_slice(py, &outcome.departure)
    }
}

impl Replay {
    fn by_server(&self, py: Python<'_>, flat: &PyBuffer<f64>) -> PyResult<Vec<Vec<f64>>> {
        let flat = flat.to_vec(py)?;
        if flat.len() != self.limits.len() * self.grid.steps {
            return Err(PyValueError::new_err("a capacity for each server and step"));
        }
        Ok(flat.chunks(self.grid.steps).map(<[f64]>::to_vec).collect())
    }

    fn calm(&self, py: Python<'_>, flags: &PyBuffer<u8>) -> PyResult<Vec<bool>> {
        let flags = flags.to_vec(py)?;
        if flags.len() != self.grid.steps {
            return Err(PyValueError::new_err("a flag for each step"));
        }
        Ok(flags.into_iter().map(|flag| flag != 0).collect())
    }
}

fn limits(py: Python<'_>, servers: &Bound<'_, PyAny>) -> PyResult<Vec<Limits>> {
    let cores: Vec<f64> = column(py, servers, "cores")?;
    let (workers, accept, inside) = (
        column::<u32>(py, servers, "workers")?,
        column::<u32>(py, servers, "accept")?,
        column::<u32>(py, servers, "inside")?,
    );
    if [workers.len(), accept.len(), inside.len()]
        .iter()
        .any(|&n| n != cores.len())
    {
        return Err(PyValueError::new_err("columns of unequal length"));
    }
    let one = |i: usize| Limits {
        cores: cores[i].max(f64::MIN_POSITIVE),
        in_turn: false,
        workers: workers[i],
        accept: accept[i],
        inside: inside[i],
    };
    Ok((0..cores.len()).map(one).collect())
}
