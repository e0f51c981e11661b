//! The tables of a decoded capture: visits, requests and events in one folder, written completely
//! or not at all.

use super::rows::{Event, NumberedEvent, Request};
use super::writer::{self, TableWriter};
use super::{Names, Visit, VisitSink, NO_ID, NO_NAME, NO_TIME};
use crate::error::Result;
use std::path::Path;

/// Writes `visits.parquet` and `requests.parquet`. A request is a visit (or a failed attempt) with
/// a request id and no parent; a failed attempt is not a visit.
pub struct TablesSink {
    visits: TableWriter<Visit>,
    requests: TableWriter<Request>,
    incomplete: u64,
}

impl TablesSink {
    pub fn create(folder: &Path) -> Result<Self> {
        Ok(TablesSink {
            visits: TableWriter::create(&folder.join("visits.parquet"))?,
            requests: TableWriter::create(&folder.join("requests.parquet"))?,
            incomplete: 0,
        })
    }

    pub fn visits(&self) -> u64 {
        self.visits.rows()
    }

    pub fn requests(&self) -> u64 {
        self.requests.rows()
    }

    /// Rows left out because their server, caller, status, begin or end is unknown.
    pub fn incomplete(&self) -> u64 {
        self.incomplete
    }
}

fn is_complete(visit: &Visit) -> bool {
    let moments = [visit.sent, visit.departure];
    let names = [visit.server, visit.caller, visit.status];
    !moments.contains(&NO_TIME)
        && !names.contains(&NO_NAME)
        && (visit.arrival != NO_TIME || !visit.served)
}

/// What the tables have when a segment of a long reading ends.
pub type Paused<V, R> = (writer::Paused<V>, writer::Paused<R>, u64);

impl TablesSink {
    /// What is in order so far becomes a file of its own.
    pub fn pause(&mut self) -> Result<()> {
        self.visits.pause()?;
        self.requests.pause()
    }

    /// The state after a pause, for [`Self::resume`].
    pub fn paused(&mut self) -> Result<Paused<&Visit, &Request>> {
        Ok((
            self.visits.paused()?,
            self.requests.paused()?,
            self.incomplete,
        ))
    }

    pub fn resume(folder: &Path, paused: Paused<Visit, Request>) -> Result<Self> {
        Ok(TablesSink {
            visits: TableWriter::resume(&folder.join("visits.parquet"), paused.0)?,
            requests: TableWriter::resume(&folder.join("requests.parquet"), paused.1)?,
            incomplete: paused.2,
        })
    }
}

impl VisitSink for TablesSink {
    fn push(&mut self, visit: Visit, names: &Names) -> Result<()> {
        if !is_complete(&visit) {
            self.incomplete += 1;
            return Ok(());
        }
        if visit.parent == NO_ID && visit.request != NO_ID {
            self.requests.push(Request::of(&visit), names)?;
        }
        if visit.served {
            self.visits.push(visit, names)?;
        }
        Ok(())
    }

    fn finish(&mut self, names: &Names) -> Result<()> {
        self.visits.seal(names)?;
        self.requests.seal(names)?;
        self.visits.publish()?;
        self.requests.publish()?;
        Ok(())
    }
}

/// Writes `events.parquet`.
pub struct EventWriter {
    events: TableWriter<NumberedEvent>,
}

impl EventWriter {
    pub fn create(folder: &Path) -> Result<Self> {
        Ok(EventWriter {
            events: TableWriter::create(&folder.join("events.parquet"))?,
        })
    }

    pub fn push(&mut self, event: Event, names: &Names) -> Result<()> {
        let number = self.events.rows();
        self.events.push(NumberedEvent { event, number }, names)
    }

    pub fn pause(&mut self) -> Result<()> {
        self.events.pause()
    }

    pub fn paused(&mut self) -> Result<writer::Paused<&NumberedEvent>> {
        self.events.paused()
    }

    pub fn resume(folder: &Path, paused: writer::Paused<NumberedEvent>) -> Result<Self> {
        let events = TableWriter::resume(&folder.join("events.parquet"), paused)?;
        Ok(EventWriter { events })
    }

    /// Writes all of them to a file that does not have its name yet. Returns their number.
    pub fn seal(&mut self, names: &Names) -> Result<u64> {
        self.events.seal(names)
    }

    pub fn publish(&mut self) -> Result<u64> {
        self.events.publish()
    }

    /// Returns the events written.
    pub fn finish(&mut self, names: &Names) -> Result<u64> {
        self.events.finish(names)
    }
}
