//! `_core.Replay`: the visits of a recording as the network of queues that they came from.
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tailrace_core::replay::{
    answers_first, in_order, Attempt, Capacity, Grid, Held, Limits, Needs, Network, Part, Program,
    Step, Visits, KINDS,
};

use crate::choices::chosen;

/// The least number of known parts in a group for measuring its demand.
const LEAST: u32 = 10;
/// A server is treated as serving in turn if that leaves less than half unaccounted for, or if it is a known event
/// loop whose visits leave in order.
const CLEARLY: f64 = 2.0;
/// A server serves in turn if at least `PAIRS` parts were there when a later one came, and no later one overtook them
/// for so much of their time. Of two parts that share the cores, and whose demands vary, more than one in twenty
/// overtakes.
const IN_ORDER: f64 = 0.95;
const PAIRS: usize = 30;

#[pyclass(module = "tailrace._core")]
pub struct Replay {
    network: Arc<Network>,
    groups: usize,
    servers: Vec<Capacity>,
    cores: Vec<f64>,
    may_turn: Vec<bool>,
    /// These servers are known to be event loops.
    loops: Vec<bool>,
}

/// All visits of a replay, or some of them.
#[pyclass(module = "tailrace._core", frozen)]
pub struct Section {
    network: Arc<Network>,
}

fn are_in_order(parts: &[Part], server: u32) -> bool {
    let (together, ordered) = in_order(parts, server);
    together >= PAIRS && ordered >= IN_ORDER
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
        gives_up: column(py, visits, "gives_up")?,
    })
}

/// What each root follows, what it repeats, and how long its client waited for that; and the visit whose steps each
/// visit takes.
fn roots(py: Python<'_>, visits: &Bound<'_, PyAny>, size: usize) -> PyResult<[Vec<i64>; 4]> {
    let one = |name| column::<i64>(py, visits, name);
    let (follows, repeats) = (one("follows")?, one("repeats")?);
    let found = [follows, repeats, one("patience")?, one("like")?];
    let mut numbers = found[0].iter().chain(&found[1]).chain(&found[3]);
    if found.iter().any(|one| one.len() != size) || numbers.any(|&before| before >= size as i64) {
        return Err(PyValueError::new_err(
            "columns of unequal length, or roots that do not exist",
        ));
    }
    Ok(found)
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
        let of_server = |name| flags(py, servers, name);
        let (may_turn, loops) = (of_server("may_turn")?, of_server("loops")?);
        let (may_drop, pool) = (flags(py, visits, "may_drop")?, column(py, visits, "pool")?);
        let (held, choice) = (column(py, visits, "held")?, column(py, visits, "choice")?);
        let [follows, repeats, patience, like] = roots(py, visits, columns.len())?;
        let bytes: Vec<u64> = column(py, visits, "bytes")?;
        let lengths = [pool.len(), held.len(), choice.len(), bytes.len()];
        let fits = lengths.iter().all(|&n| n == may_drop.len())
            && may_drop.len() == columns.len()
            && may_turn.len() == limits.len()
            && loops.len() == limits.len()
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
            let (program, grid) = (
                Program::like(&columns, &like),
                Grid::new(begin, step, steps),
            );
            let each: Vec<_> = limits.iter().enumerate().collect();
            let servers = at_once(each, |(i, one)| {
                Capacity::of(&program.parts, i as u32, one.cores, grid, false)
            });
            Ok(Replay {
                groups: groups * KINDS as usize,
                servers,
                cores: limits.iter().map(|one| one.cores).collect(),
                may_turn,
                loops,
                network: Arc::new(Network {
                    visits: columns,
                    works: vec![0.0; program.parts.len()],
                    program,
                    limits,
                    grid,
                    may_drop,
                    follows,
                    repeats,
                    patience,
                    schedule,
                    pool,
                    pools,
                    held,
                    choice,
                    choices,
                    bytes,
                }),
            })
        })
    }

    /// Let each server serve at full speed as many visits as fit the share of its resources that it used in
    /// calm steps (NaN where it is not known).
    fn serve_as_used(
        &mut self,
        py: Python<'_>,
        used: PyBuffer<f64>,
        calm: PyBuffer<u8>,
    ) -> PyResult<()> {
        let (used, calm) = (used.to_vec(py)?, self.calm(py, &calm)?);
        if used.len() != self.servers.len() {
            return Err(PyValueError::new_err("a share for each server"));
        }
        py.detach(|| {
            let limits = &mut Arc::make_mut(&mut self.network).limits;
            for ((server, one), used) in self.servers.iter_mut().zip(limits).zip(used) {
                one.cores = server.at_full_speed(used, &calm);
                server.serve_at_once(one.cores);
            }
        });
        Ok(())
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
        let (prior, calm) = (by_server(py, &self.network, &prior)?, self.calm(py, &calm)?);
        let (groups, all_cores, may_turn) = (self.groups, &self.cores, &self.may_turn);
        let loops = &self.loops;
        let network = Arc::make_mut(&mut self.network);
        let (program, grid) = (&network.program, network.grid);
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
            let mut on_cores = vec![all_cores[server], 1.0];
            on_cores.dedup();
            let mut best = all_at_once;
            let parts = &program.parts;
            let is_loop = loops[server] && are_in_order(parts, server as u32);
            for cores in on_cores {
                let turns = Capacity::of(parts, server as u32, cores, grid, true);
                let in_turn = turns.found(prior, &calm, groups, LEAST, rounds);
                let is_better = lacking(&in_turn) * CLEARLY < lacking(&best);
                if is_better || (is_loop && !limits.in_turn) {
                    limits.answers_first = answers_first(parts, server as u32);
                    (limits.in_turn, limits.cores, *shared, best) = (true, cores, turns, in_turn);
                }
            }
            best
        };
        let each = network.limits.iter_mut().zip(&mut self.servers);
        let each: Vec<_> = each.enumerate().collect();
        Ok(py.detach(|| {
            at_once(each, |(server, (limits, shared))| {
                one(limits, shared, server)
            })
        }))
    }

    /// Serve and accept as `other` does, a replay of the same servers.
    fn serve_as(&mut self, py: Python<'_>, other: PyRef<'_, Replay>) -> PyResult<()> {
        let theirs = Arc::clone(&other.network);
        if theirs.limits.len() != self.servers.len() {
            return Err(PyValueError::new_err("a replay of other servers"));
        }
        py.detach(|| {
            let network = Arc::make_mut(&mut self.network);
            let (parts, grid) = (&network.program.parts, network.grid);
            let each = network.limits.iter_mut().zip(&mut self.servers);
            for (server, ((limits, shared), theirs)) in each.zip(&theirs.limits).enumerate() {
                (limits.still, limits.slice) = (theirs.still, theirs.slice);
                (limits.in_turn, limits.cores) = (theirs.in_turn, theirs.cores);
                limits.answers_first = theirs.answers_first;
                match theirs.in_turn {
                    true => *shared = Capacity::of(parts, server as u32, theirs.cores, grid, true),
                    false => shared.serve_at_once(theirs.cores),
                }
            }
        });
        Ok(())
    }

    /// Let this server accept nothing with less than this share of its speed.
    fn accept_above(&mut self, server: usize, share: f64) -> PyResult<()> {
        let limits = &mut Arc::make_mut(&mut self.network).limits;
        let one = limits.get_mut(server);
        one.ok_or_else(|| PyValueError::new_err("no such server"))?
            .still = share;
        Ok(())
    }

    /// Let the thread of this server that accepts connections wait until each running visit has had so
    /// many nanoseconds of work.
    fn accept_in_turn(&mut self, server: usize, slice_ns: f64) -> PyResult<()> {
        let limits = &mut Arc::make_mut(&mut self.network).limits;
        let one = limits.get_mut(server);
        one.ok_or_else(|| PyValueError::new_err("no such server"))?
            .slice = slice_ns;
        Ok(())
    }

    /// Measure the works of servers that may be event loops, and whose visits leave in order, as served
    /// in turn.
    fn take_turns(&mut self, py: Python<'_>) {
        py.detach(|| {
            let network = Arc::make_mut(&mut self.network);
            let (parts, grid) = (&network.program.parts, network.grid);
            let each = network.limits.iter_mut().zip(&mut self.servers);
            let each = each.zip(self.cores.iter().zip(&self.may_turn));
            for (server, ((limits, shared), (&cores, may_turn))) in each.enumerate() {
                let server = server as u32;
                if *may_turn && !limits.in_turn && are_in_order(parts, server) {
                    (limits.in_turn, limits.cores) = (true, cores);
                    limits.answers_first = answers_first(parts, server);
                    *shared = Capacity::of(parts, server, cores, grid, true);
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
        if prior.len() != self.network.grid.steps {
            return Err(PyValueError::new_err("a capacity for each step"));
        }
        let fit = self
            .servers
            .get(server)
            .ok_or_else(|| PyValueError::new_err("no such server"))?;
        let needs = fit.needs(&fit.works(&prior), &calm, self.groups, LEAST);
        Ok(fit.excess(&prior, &needs, &spans))
    }

    /// How many visits each server serves at full speed.
    #[getter]
    fn at_once(&self) -> Vec<f64> {
        self.network.limits.iter().map(|one| one.cores).collect()
    }

    /// How many cores of each server can be at work.
    #[getter]
    fn cores(&self) -> Vec<f64> {
        let each = self.network.limits.iter().zip(&self.cores);
        each.map(|(one, &cores)| one.cores.min(cores)).collect()
    }

    /// Nanoseconds at full speed that the visits of a server attain in each step.
    fn busy(&self, server: usize) -> PyResult<Vec<f64>> {
        let one = self.servers.get(server);
        one.map(|one| one.busy(self.network.grid.steps))
            .ok_or_else(|| PyValueError::new_err("no such server"))
    }

    /// Measure what each part needed, at these capacities.
    fn measure(&mut self, py: Python<'_>, capacity: PyBuffer<f64>) -> PyResult<()> {
        let capacity = by_server(py, &self.network, &capacity)?;
        let works = &mut Arc::make_mut(&mut self.network).works;
        for (fit, capacity) in self.servers.iter().zip(&capacity) {
            for (&part, work) in fit.which.iter().zip(fit.works(capacity)) {
                works[part as usize] = work;
            }
        }
        Ok(())
    }

    /// What each visit needed by `measure`, in nanoseconds at full speed: before its first call, and
    /// as a whole.
    fn works(&self, py: Python<'_>, before: PyBuffer<f64>, whole: PyBuffer<f64>) -> PyResult<()> {
        let (mut first, mut all) = (Vec::new(), Vec::new());
        let program = &self.network.program;
        for span in program.first.windows(2) {
            let (mut calls, mut sums) = (false, (0.0, 0.0));
            for step in &program.steps[span[0] as usize..span[1] as usize] {
                match step {
                    Step::Work(part) => {
                        let work = self.network.works[*part as usize];
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

    /// These visits, in order and each at most once, without the steps before `first`.
    fn section(&self, py: Python<'_>, visits: PyBuffer<i64>, first: usize) -> PyResult<Section> {
        let rows = visits.to_vec(py)?;
        let known = i64::try_from(self.network.visits.len()).unwrap_or(i64::MAX);
        let fits = rows.first().is_none_or(|&row| row >= 0)
            && rows
                .last()
                .is_none_or(|&row| row < known.min(u32::MAX.into()))
            && rows.windows(2).all(|pair| pair[0] < pair[1]);
        if !fits {
            return Err(PyValueError::new_err("visits that are not in order"));
        }
        let rows: Vec<u32> = rows.into_iter().map(|row| row as u32).collect();
        Ok(py.detach(|| Section {
            network: Arc::new(self.network.section(&rows, first)),
        }))
    }

    /// All visits.
    fn whole(&self) -> Section {
        Section {
            network: Arc::clone(&self.network),
        }
    }
}

#[pymethods]
impl Section {
    /// Run it at these capacities; writes when each visit is first sent, leaves and arrives into
    /// `sent`, `departure` and `arrival`. `choosing` is how each choice is made: "recorded", "turns",
    /// or a policy. `late` and `pause` hold up each visit before its arrival and after its start. Visits
    /// of which `spare` is 1 need no connection and no worker, and those of which it is 2 no core either. Each
    /// visit works for at most `most` at a time. Roots of which `apart` is 1 are sent at their time,
    /// whatever their clients wait for. Calls of which `attempts` is 1 are never made, and the caller of one of which it
    /// is 2 does not give it up.
    #[pyo3(signature = (capacity, sent, choosing, departure, arrival=None, late=None, pause=None, spare=None, most=None, apart=None, attempts=None))]
    #[allow(clippy::too_many_arguments)]
    fn run(
        &self,
        py: Python<'_>,
        capacity: PyBuffer<f64>,
        sent: PyBuffer<i64>,
        choosing: Vec<String>,
        departure: PyBuffer<i64>,
        arrival: Option<PyBuffer<i64>>,
        late: Option<PyBuffer<i64>>,
        pause: Option<PyBuffer<i64>>,
        spare: Option<PyBuffer<u8>>,
        most: Option<PyBuffer<i64>>,
        apart: Option<PyBuffer<u8>>,
        attempts: Option<PyBuffer<u8>>,
    ) -> PyResult<()> {
        let network = &self.network;
        let (capacity, sent_at) = (by_server(py, network, &capacity)?, sent);
        let sent = sent_at.to_vec(py)?;
        let column = |times: Option<PyBuffer<i64>>| {
            times.map_or_else(|| Ok(Vec::new()), |times| times.to_vec(py))
        };
        let flags = |flags: Option<PyBuffer<u8>>| {
            flags.map_or_else(|| Ok(Vec::new()), |flags| flags.to_vec(py))
        };
        let held = Held {
            late: column(late)?,
            pause: column(pause)?,
            needs: flags(spare)?.into_iter().map(needs).collect(),
            most: column(most)?,
            apart: flags(apart)?.into_iter().map(|flag| flag != 0).collect(),
            attempts: flags(attempts)?.into_iter().map(attempt).collect(),
        };
        let choosing = choosing
            .iter()
            .map(|name| chosen(name))
            .collect::<PyResult<Vec<_>>>()?;
        let visits = network.visits.len();
        let fits = |rows: usize| rows == 0 || rows == visits;
        let columns = [
            held.late.len(),
            held.pause.len(),
            held.needs.len(),
            held.most.len(),
            held.apart.len(),
            held.attempts.len(),
        ];
        if sent.len() != visits || !columns.into_iter().all(fits) {
            return Err(PyValueError::new_err("a value for each visit"));
        }
        let outcome = py.detach(|| network.run(&capacity, &sent, &choosing, &held));
        sent_at.copy_from_slice(py, &outcome.sent)?;
        if let Some(arrival) = arrival {
            arrival.copy_from_slice(py, &outcome.arrival)?;
        }
        departure.copy_from_slice(py, &outcome.departure)
    }
}

impl Replay {
    fn calm(&self, py: Python<'_>, flags: &PyBuffer<u8>) -> PyResult<Vec<bool>> {
        let flags = flags.to_vec(py)?;
        if flags.len() != self.network.grid.steps {
            return Err(PyValueError::new_err("a flag for each step"));
        }
        Ok(flags.into_iter().map(|flag| flag != 0).collect())
    }
}

fn attempt(made: u8) -> Attempt {
    match made {
        0 => Attempt::AsRecorded,
        1 => Attempt::Never,
        _ => Attempt::Patient,
    }
}

fn needs(spare: u8) -> Needs {
    match spare {
        0 => Needs::Place,
        1 => Needs::Core,
        _ => Needs::Nothing,
    }
}

fn by_server(py: Python<'_>, network: &Network, flat: &PyBuffer<f64>) -> PyResult<Vec<Vec<f64>>> {
    let (flat, steps) = (flat.to_vec(py)?, network.grid.steps);
    if flat.len() != network.limits.len() * steps {
        return Err(PyValueError::new_err("a capacity for each server and step"));
    }
    Ok(flat.chunks(steps).map(<[f64]>::to_vec).collect())
}

/// The results of `work` for each of these, in their order; each core works on one at a time.
fn at_once<T: Send, R: Send>(each: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = available_parallelism()
        .map_or(1, NonZeroUsize::get)
        .min(each.len());
    let waiting = Mutex::new(each.into_iter().enumerate());
    let next = || {
        waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .next()
    };
    let worker = || {
        std::iter::from_fn(next)
            .map(|(at, one)| (at, work(one)))
            .collect::<Vec<_>>()
    };
    let mut found: Vec<(usize, R)> = std::thread::scope(|scope| {
        let started: Vec<_> = (1..threads).map(|_| scope.spawn(worker)).collect();
        let mine = worker();
        let others = started.into_iter().flat_map(|one| match one.join() {
            Ok(found) => found,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        mine.into_iter().chain(others).collect()
    });
    found.sort_unstable_by_key(|one| one.0);
    found.into_iter().map(|(_, one)| one).collect()
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
        answers_first: false,
        workers: workers[i],
        accept: accept[i],
        inside: inside[i],
        still: 0.0,
        slice: 0.0,
    };
    Ok((0..cores.len()).map(one).collect())
}
