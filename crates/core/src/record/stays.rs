//! Decoded visits without parents, to a file and back: the segments of a recording.

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type, UInt64Type, UInt8Type};
use arrow_array::{Array, ArrowPrimitiveType, BooleanArray, PrimitiveArray, RecordBatch};
use arrow_schema::SchemaRef;
use rustc_hash::FxHashMap;

use super::columns::Columns;
use super::encoding::table_error;
use super::merge::{SortKey, BATCH_ROWS};
use super::read::Table;
use super::rows::put_course;
use super::writer::Row;
use super::{schema, Names, Visit, NO_ID, NO_NAME, NO_TIME};
use crate::error::Result;

/// A visit without parent and request.
pub struct Stay(pub Visit);

impl Row for Stay {
    const KEY: SortKey = SortKey {
        time: "departure",
        id: Some("visit"),
    };

    fn schema() -> SchemaRef {
        schema::stays()
    }

    fn key(&self) -> (i64, u64) {
        (self.0.departure, self.0.visit)
    }

    fn put(rows: &[Self], names: &Names, columns: &mut Columns<'_>) -> parquet::errors::Result<()> {
        let all = || rows.iter().map(|Stay(visit)| visit);
        let host = |visit: &Visit| {
            let host = names.server_hosts.get(visit.server as usize);
            host.copied().unwrap_or(NO_NAME)
        };
        columns.counts(all().map(|v| v.visit))?;
        columns.named(&names.servers, all().map(|v| v.server))?;
        columns.named(&names.hosts, all().map(host))?;
        columns.named(&names.hosts, all().map(|v| v.caller))?;
        columns.numbers(all().map(|v| v.connection))?;
        columns.named(
            &names.interactions,
            all().map(|v| names.shown(v.interaction)),
        )?;
        columns.counts(all().map(|v| v.key))?;
        columns.times(all().map(|v| v.sent))?;
        columns.times(all().map(|v| v.connected))?;
        put_course(all, names, columns)?;
        let served = all().map(|v| Some(v.served));
        columns.array(Arc::new(BooleanArray::from_iter(served)))
    }
}

/// Reads segments one after the other; equal names get one index in all of them.
#[derive(Default)]
pub struct Reader {
    pub names: Names,
    known: [FxHashMap<String, u32>; 4],
}

/// Lists of [`Names`], as positions in [`Reader::known`].
#[derive(Clone, Copy)]
enum List {
    Servers,
    Hosts,
    Interactions,
    Statuses,
}

impl Reader {
    /// Passes every visit of the file to `each`; false if the file is not a complete table, of
    /// which nothing is read.
    pub fn read(
        &mut self,
        path: &Path,
        each: &mut impl FnMut(Visit, &Names) -> Result<()>,
    ) -> Result<bool> {
        let opened = Table::open(path).and_then(|table| table.all(BATCH_ROWS));
        let Ok(batches) = opened else {
            return Ok(false);
        };
        for batch in batches {
            self.rows(&batch?, path, each)?;
        }
        Ok(true)
    }

    fn rows(
        &mut self,
        batch: &RecordBatch,
        path: &Path,
        each: &mut impl FnMut(Visit, &Names) -> Result<()>,
    ) -> Result<()> {
        let servers = self.named(batch, "server", List::Servers, path)?;
        let server_hosts = self.named(batch, "server_host", List::Hosts, path)?;
        let callers = self.named(batch, "caller", List::Hosts, path)?;
        let interactions = self.named(batch, "interaction", List::Interactions, path)?;
        let statuses = self.named(batch, "status", List::Statuses, path)?;
        for (server, host) in servers.iter().zip(&server_hosts) {
            if let Some(place) = self.names.server_hosts.get_mut(*server as usize) {
                *place = *host;
            }
        }
        let times = [
            "sent",
            "connected",
            "arrival",
            "start",
            "first_byte",
            "departure",
        ]
        .map(|name| column::<Int64Type>(batch, name, path));
        let [sent, connected, arrival, start, first_byte, departure] = times;
        let (sent, connected, arrival) = (sent?, connected?, arrival?);
        let (start, first_byte, departure) = (start?, first_byte?, departure?);
        let number = |name| column::<UInt64Type>(batch, name, path);
        let (visits, keys) = (number("visit")?, number("key")?);
        let (bytes_in, bytes_out) = (number("bytes_in")?, number("bytes_out")?);
        let connections = column::<UInt32Type>(batch, "connection", path)?;
        let drops = column::<UInt8Type>(batch, "drops", path)?;
        let data_drops = column::<UInt8Type>(batch, "data_drops", path)?;
        let served = batch.column_by_name("served");
        let served = served
            .and_then(|column| column.as_boolean_opt())
            .ok_or_else(|| lacks(path, "served"))?;
        for row in 0..batch.num_rows() {
            let visit = Visit {
                visit: visits.value(row),
                server: servers[row],
                caller: callers[row],
                connection: connections.value(row),
                interaction: interactions[row],
                key: keys.value(row),
                sent: moment(sent, row),
                connected: moment(connected, row),
                arrival: moment(arrival, row),
                start: moment(start, row),
                first_byte: moment(first_byte, row),
                departure: moment(departure, row),
                drops: drops.value(row),
                data_drops: data_drops.value(row),
                status: statuses[row],
                bytes_in: bytes_in.value(row),
                bytes_out: bytes_out.value(row),
                served: served.value(row),
                parent: NO_ID,
                request: NO_ID,
                downstream_ns: NO_TIME,
            };
            each(visit, &self.names)?;
        }
        Ok(())
    }

    /// The rows of a column of names, as this reader's indices.
    fn named(
        &mut self,
        batch: &RecordBatch,
        name: &str,
        list: List,
        path: &Path,
    ) -> Result<Vec<u32>> {
        let found = batch
            .column_by_name(name)
            .and_then(|column| column.as_dictionary_opt::<Int32Type>());
        let column = found.ok_or_else(|| lacks(path, name))?;
        let values = column.values().as_string_opt::<i32>();
        let values = values.ok_or_else(|| lacks(path, name))?;
        let ours: Vec<u32> = values
            .iter()
            .map(|value| value.map_or(NO_NAME, |value| self.intern(list, value)))
            .collect();
        let index = |key: Option<usize>| key.and_then(|key| ours.get(key).copied());
        Ok((0..column.len())
            .map(|row| index(column.key(row)).unwrap_or(NO_NAME))
            .collect())
    }

    fn intern(&mut self, list: List, value: &str) -> u32 {
        let known = &mut self.known[list as usize];
        if let Some(&index) = known.get(value) {
            return index;
        }
        let values = match list {
            List::Servers => {
                self.names.server_hosts.push(NO_NAME);
                &mut self.names.servers
            }
            List::Hosts => &mut self.names.hosts,
            List::Interactions => &mut self.names.interactions,
            List::Statuses => &mut self.names.statuses,
        };
        values.push(value.to_owned());
        let index = u32::try_from(values.len() - 1).unwrap_or(NO_NAME);
        known.insert(value.to_owned(), index);
        index
    }
}

fn column<'a, T: ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    name: &str,
    path: &Path,
) -> Result<&'a PrimitiveArray<T>> {
    let found = batch.column_by_name(name);
    found
        .and_then(|column| column.as_primitive_opt::<T>())
        .ok_or_else(|| lacks(path, name))
}

fn moment(column: &PrimitiveArray<Int64Type>, row: usize) -> i64 {
    if column.is_valid(row) {
        column.value(row)
    } else {
        NO_TIME
    }
}

fn lacks(path: &Path, name: &str) -> crate::error::Error {
    table_error(
        path,
        format!("its column {name} is missing or of another type"),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::writer::TableWriter;
    use super::*;

    fn visit(number: u64, server: u32, caller: u32) -> Visit {
        Visit {
            visit: number,
            server,
            caller,
            connection: 7,
            interaction: NO_NAME,
            key: u64::MAX,
            sent: 10,
            connected: NO_TIME,
            arrival: 11,
            start: NO_TIME,
            first_byte: 15,
            departure: 20 + number as i64,
            drops: 1,
            data_drops: 0,
            status: 0,
            bytes_in: 100,
            bytes_out: 200,
            served: number % 2 == 0,
            parent: NO_ID,
            request: NO_ID,
            downstream_ns: NO_TIME,
        }
    }

    fn names(servers: &[(&str, u32)], hosts: &[&str]) -> Names {
        Names {
            servers: servers.iter().map(|(name, _)| (*name).to_owned()).collect(),
            server_hosts: servers.iter().map(|(_, host)| *host).collect(),
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
            interactions: Vec::new(),
            folded: Vec::new(),
            statuses: vec!["ok".to_owned()],
            ..Names::default()
        }
    }

    #[test]
    fn visits_of_two_segments_come_back_with_one_set_of_names() {
        let folder = std::env::temp_dir();
        let path = |part: u32| folder.join(format!("tailrace-{}-stays-{part}", std::process::id()));
        let parts = [
            (names(&[("web", 1)], &["client", "h1"]), visit(1, 0, 0)),
            (
                names(&[("app", 0), ("web", 1)], &["h2", "h1"]),
                visit(2, 0, 1),
            ),
        ];
        let mut reader = Reader::default();
        let mut found = Vec::new();
        for (part, (names, visit)) in (0..).zip(parts) {
            let mut table: TableWriter<Stay> = TableWriter::create(&path(part)).unwrap();
            table.push(Stay(visit), &names).unwrap();
            table.finish(&names).unwrap();
            let whole = reader.read(&path(part), &mut |visit, _| {
                found.push(visit);
                Ok(())
            });
            assert!(whole.unwrap());
            std::fs::remove_file(path(part)).unwrap();
        }
        let server = |at: usize| reader.names.servers[found[at].server as usize].as_str();
        let host = |at: usize| {
            reader.names.hosts[reader.names.server_hosts[found[at].server as usize] as usize]
                .as_str()
        };
        let caller = |at: usize| reader.names.hosts[found[at].caller as usize].as_str();
        assert_eq!((server(0), host(0), caller(0)), ("web", "h1", "client"));
        assert_eq!((server(1), host(1), caller(1)), ("app", "h2", "h1"));
        let same = Visit {
            server: found[0].server,
            caller: found[0].caller,
            ..visit(1, 0, 0)
        };
        assert_eq!(found[0], same);
    }

    #[test]
    fn a_file_that_is_no_table_is_refused() {
        let path = std::env::temp_dir().join(format!("tailrace-{}-stays-cut", std::process::id()));
        std::fs::write(&path, b"PAR1").unwrap();
        assert!(!Reader::default().read(&path, &mut |_, _| Ok(())).unwrap());
        std::fs::remove_file(path).unwrap();
    }
}
