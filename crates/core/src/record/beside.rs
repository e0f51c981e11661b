//! A sink that works on a thread of its own, beside the thread that fills it.
//!
//! It gets the same visits and the same growth of the names in the same order as without a thread, so what it makes of
//! them is the same to the byte.
//! ```text
//! push(visit, names) ─▶ batch: what the names grew by, the visit, … ─▶ channel ─▶ the sink, with names of its own
//! here() ◀── the sink comes back, after all of that ─────────────────────────────────┘
//! ```

use std::sync::mpsc::{channel, sync_channel, Receiver, SyncSender};
use std::thread::JoinHandle;

use super::{Extent, Growth, Names, Visit, VisitSink};
use crate::error::{Error, Result};

/// Visits handed over at once …
const BATCH: usize = if cfg!(test) { 16 } else { 2048 };
/// … and batches that wait: 2 MB in all.
const WAITING: usize = 4;

enum Item {
    Visit(Visit),
    Names(Box<Growth>),
}

type Batch = Vec<Item>;

/// Passes visits on to a sink, which has a thread of its own from the first visit on, if `threaded`.
pub struct Beside<S> {
    place: Place<S>,
    threaded: bool,
}

enum Place<S> {
    Here(S),
    There(Worker<S>),
    /// Between the two.
    Nowhere,
}

/// The sink, and whether it took all that came.
type Done<S> = (S, Result<()>);

struct Worker<S> {
    to: Option<SyncSender<Batch>>,
    thread: Option<JoinHandle<Option<Done<S>>>>,
    batch: Batch,
    /// The names that the thread has.
    told: Extent,
}

impl<S: VisitSink + Send + 'static> Beside<S> {
    pub fn new(sink: S, threaded: bool) -> Self {
        Beside {
            place: Place::Here(sink),
            threaded,
        }
    }

    /// The sink, once it has taken all visits so far.
    pub fn here(&mut self) -> Result<&mut S> {
        if let Place::There(worker) = &mut self.place {
            worker.hand_over();
            let joined = worker.join();
            self.place = Place::Nowhere;
            let (sink, taken) = joined?;
            self.place = Place::Here(sink);
            taken?;
        }
        match &mut self.place {
            Place::Here(sink) => Ok(sink),
            _ => Err(lost()),
        }
    }

    /// Moves the sink to a thread; without one it stays.
    fn leave(&mut self, names: &Names) {
        let (first, begin) = channel::<(S, Names)>();
        let (to, batches) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().spawn(move || work(&begin, &batches));
        match (thread, std::mem::replace(&mut self.place, Place::Nowhere)) {
            (Ok(thread), Place::Here(sink)) => {
                // The thread waits for it, so that it is not lost if there is no thread.
                let _ = first.send((sink, names.clone()));
                self.place = Place::There(Worker {
                    to: Some(to),
                    thread: Some(thread),
                    batch: Vec::with_capacity(BATCH),
                    told: names.extent(),
                });
            }
            (_, place) => (self.place, self.threaded) = (place, false),
        }
    }
}

fn work<S: VisitSink>(begin: &Receiver<(S, Names)>, batches: &Receiver<Batch>) -> Option<Done<S>> {
    let (mut sink, mut names) = begin.recv().ok()?;
    for item in batches.iter().flatten() {
        match item {
            Item::Names(growth) => names.grow(*growth),
            Item::Visit(visit) => {
                if let Err(error) = sink.push(visit, &names) {
                    return Some((sink, Err(error)));
                }
            }
        }
    }
    Some((sink, Ok(())))
}

fn lost() -> Error {
    Error::Options("an earlier error ended the work".to_owned())
}

impl<S> Worker<S> {
    /// False: the sink has ended with an error.
    fn hand_over(&mut self) -> bool {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        self.to.as_ref().is_some_and(|to| to.send(batch).is_ok())
    }

    fn join(&mut self) -> Result<Done<S>> {
        self.to = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Some(done))) => Ok(done),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            _ => Err(lost()),
        }
    }
}

impl<S> Drop for Worker<S> {
    /// Files of the sink are gone when this ends.
    fn drop(&mut self) {
        self.to = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl<S: VisitSink + Send + 'static> VisitSink for Beside<S> {
    fn push(&mut self, visit: Visit, names: &Names) -> Result<()> {
        if let (Place::Here(_), true) = (&self.place, self.threaded) {
            self.leave(names);
        }
        match &mut self.place {
            Place::Here(sink) => sink.push(visit, names),
            Place::There(worker) => {
                let extent = names.extent();
                if extent != worker.told {
                    let growth = Box::new(names.since(worker.told));
                    worker.batch.push(Item::Names(growth));
                    worker.told = extent;
                }
                worker.batch.push(Item::Visit(visit));
                if worker.batch.len() >= BATCH && !worker.hand_over() {
                    self.here()?;
                }
                Ok(())
            }
            Place::Nowhere => Err(lost()),
        }
    }

    fn finish(&mut self, names: &Names) -> Result<()> {
        self.here()?.finish(names)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::tests::visit;
    use super::super::NO_ID;
    use super::*;

    /// What a sink saw: the visit, and the extent and the fold of the names with it.
    #[derive(Default)]
    struct Seen {
        rows: Vec<(u64, Extent, Option<u32>)>,
        fails_at: u64,
    }

    impl VisitSink for Seen {
        fn push(&mut self, visit: Visit, names: &Names) -> Result<()> {
            if visit.visit == self.fails_at {
                return Err(Error::Interrupted);
            }
            let first = names.folded.first().copied();
            self.rows.push((visit.visit, names.extent(), first));
            Ok(())
        }
        fn finish(&mut self, _: &Names) -> Result<()> {
            self.rows.push((NO_ID, Extent::default(), None));
            Ok(())
        }
    }

    fn seen(threaded: bool, pause: u64) -> Vec<(u64, Extent, Option<u32>)> {
        let mut beside = Beside::new(Seen::default(), threaded);
        let mut names = Names::default();
        for number in 1..=10_000 {
            if number % 7 == 0 {
                names.hosts.push(number.to_string());
            }
            if number % 500 == 0 {
                names.servers.push(number.to_string());
                names.server_hosts.push(0);
                names.interactions.push(number.to_string());
                names.folded.push(0);
            }
            if number % 1111 == 0 {
                names.refold(0, number as u32);
            }
            beside.push(visit(number, 3), &names).unwrap();
            if number % pause == 0 {
                assert_eq!(beside.here().unwrap().rows.len() as u64, number);
            }
        }
        beside.finish(&names).unwrap();
        std::mem::take(&mut beside.here().unwrap().rows)
    }

    #[test]
    fn a_thread_sees_the_same_names_with_each_visit() {
        let alone = seen(false, 20_000);
        assert_eq!(alone.len(), 10_001);
        for pause in [1, 1000, 20_000] {
            assert!(seen(true, pause) == alone);
        }
    }

    #[test]
    fn an_error_of_the_sink_ends_the_work() {
        for fails_at in [1, 5_000] {
            let sink = Seen {
                fails_at,
                ..Seen::default()
            };
            let mut beside = Beside::new(sink, true);
            let names = Names::default();
            let pushed = (1..=100_000).try_for_each(|number| beside.push(visit(number, 3), &names));
            let ended = pushed.and_then(|()| beside.finish(&names));
            assert!(matches!(ended, Err(Error::Interrupted)));
        }
    }
}
