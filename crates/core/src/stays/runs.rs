//! Rows in order, from runs that are sorted.
//!
//! Rows of a log come nearly in order. The last ones are held, because the next ones may come between them, so what comes
//! nearly in order is one run. As soon as there are many runs, they become one longer run, so few files are open at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::packed::{Packer, LONGEST};
use super::{NewFile, Row};
use crate::error::{Error, Result};

/// Rows that are sorted at a time: 3 MB, which caches of processors hold …
const SORTED: usize = if cfg!(test) { 1 << 9 } else { 1 << 15 };
/// … of which the last ones are held.
const HELD: usize = SORTED / 4;
/// Runs of one level that become a run of the next.
const TOGETHER: usize = 64;
/// Bytes that are written or read at a time.
const WRITTEN: usize = if cfg!(test) { 1 << 12 } else { 1 << 18 };
const READ: usize = WRITTEN / 4;
/// Places by which a row may move in the mean; rows that are further from their order are sorted by comparisons.
const MOVES: usize = 8;

/// The packed rows of a run that is complete.
#[derive(Debug)]
struct Run {
    place: Place,
    rows: u64,
}

#[derive(Debug)]
enum Place {
    Memory(Vec<u8>),
    File(PathBuf),
}

/// A run that goes on.
#[derive(Default)]
struct Open {
    packer: Packer,
    bytes: Vec<u8>,
    file: Option<(PathBuf, File)>,
    rows: u64,
    last: (i64, i64),
}

impl Open {
    fn put(&mut self, row: &Row) {
        self.packer.put(row, &mut self.bytes);
        self.rows += 1;
        self.last = row.key();
    }

    fn spill(&mut self, new_file: &mut NewFile) -> Result<()> {
        let (path, file) = match &mut self.file {
            Some(file) => file,
            None => {
                let path = new_file()?;
                let file = OpenOptions::new().write(true).create_new(true).open(&path);
                let file = file.map_err(|source| fault(&path, source))?;
                self.file.insert((path, file))
            }
        };
        let written = file.write_all(&self.bytes);
        written.map_err(|source| fault(path, source))?;
        self.bytes.clear();
        Ok(())
    }

    fn close(self) -> Run {
        let place = match self.file {
            Some((path, _)) => Place::File(path),
            None => Place::Memory(self.bytes),
        };
        Run {
            place,
            rows: self.rows,
        }
    }
}

fn fault(path: &Path, source: std::io::Error) -> Error {
    Error::Io {
        path: path.to_owned(),
        source,
    }
}

pub struct Runs {
    new_file: NewFile,
    most: u64,
    count: u64,
    /// Rows that are in no run yet.
    held: Vec<Row>,
    open: Option<Open>,
    levels: Vec<Vec<Arc<Run>>>,
}

/// Runs that are not needed any more.
pub struct Used(Vec<Arc<Run>>);

impl Runs {
    pub fn new(new_file: NewFile, most: u64) -> Runs {
        Runs {
            new_file,
            most,
            count: 0,
            held: Vec::new(),
            open: None,
            levels: Vec::new(),
        }
    }

    #[inline]
    pub fn add(&mut self, row: Row) -> Result<()> {
        self.held.push(row);
        self.count += 1;
        if self.held.len() >= SORTED {
            self.put(HELD)?;
        }
        Ok(())
    }

    /// Puts all rows but the last ones into the open run, or into a new one if they begin before its end.
    fn put(&mut self, held: usize) -> Result<()> {
        let mut rows = std::mem::take(&mut self.held);
        sort(&mut rows);
        let before = |open: &Open| rows.first().is_some_and(|first| first.key() < open.last);
        if self.open.as_ref().is_some_and(before) {
            self.close()?;
        }
        let open = self.open.get_or_insert_with(Open::default);
        for row in rows.drain(..rows.len().saturating_sub(held)) {
            open.put(&row);
        }
        if self.count > self.most && open.bytes.len() >= WRITTEN {
            open.spill(&mut self.new_file)?;
        }
        self.held = rows;
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        if let Some(open) = self.open.take() {
            let run = self.closed(open)?;
            self.append(run, 0)?;
        }
        Ok(())
    }

    fn closed(&mut self, mut open: Open) -> Result<Arc<Run>> {
        if open.file.is_some() || self.count > self.most {
            open.spill(&mut self.new_file)?;
        }
        open.bytes.shrink_to_fit();
        Ok(Arc::new(open.close()))
    }

    /// Adds a run that is complete; many of one level become one of the next.
    fn append(&mut self, run: Arc<Run>, level: usize) -> Result<()> {
        if level == self.levels.len() {
            self.levels.push(Vec::new());
        }
        self.levels[level].push(run);
        if self.levels[level].len() < TOGETHER {
            return Ok(());
        }
        let runs = std::mem::take(&mut self.levels[level]);
        let (mut rows, mut longer) = (Merged::of(&runs)?, Open::default());
        while let Some(row) = rows.next()? {
            longer.put(&row);
            if self.count > self.most && longer.bytes.len() >= WRITTEN {
                longer.spill(&mut self.new_file)?;
            }
        }
        drop(rows);
        remove(&Used(runs))?;
        let longer = self.closed(longer)?;
        self.append(longer, level + 1)
    }

    /// All rows, in order.
    pub fn merged(&mut self) -> Result<Merged> {
        if !self.held.is_empty() {
            self.put(0)?;
        }
        self.close()?;
        let runs: Vec<_> = self.levels.iter().flatten().cloned().collect();
        Merged::of(&runs)
    }

    /// Begins without rows; what had been added can still be read.
    pub fn begin_again(&mut self) -> Used {
        self.count = 0;
        Used(
            std::mem::take(&mut self.levels)
                .into_iter()
                .flatten()
                .collect(),
        )
    }
}

/// Removes the files of runs.
pub fn remove(used: &Used) -> Result<()> {
    for run in &used.0 {
        if let Place::File(path) = &run.place {
            fs::remove_file(path).map_err(|source| fault(path, source))?;
        }
    }
    Ok(())
}

/// Sorts rows, which are nearly in order as a rule.
fn sort(rows: &mut Vec<Row>) {
    if rows.is_sorted_by_key(Row::key) {
        return;
    }
    let mut keys: Vec<_> = (0..).zip(rows.iter().map(Row::key)).collect();
    let keys: &mut [(u32, (i64, i64))] = &mut keys;
    let mut moves = 0;
    for i in 1..keys.len() {
        let mut at = i;
        while at > 0 && keys[at - 1].1 > keys[at].1 {
            keys.swap(at - 1, at);
            at -= 1;
        }
        moves += i - at;
        if moves > MOVES * keys.len() {
            keys.sort_unstable_by_key(|&(_, key)| key);
            break;
        }
    }
    let sorted = keys.iter().filter_map(|&(at, _)| rows.get(at as usize));
    *rows = sorted.copied().collect();
}

/// The rows of runs, in order.
pub struct Merged {
    readers: Vec<Reader>,
    /// The next row of each reader, by its number.
    next: Vec<Row>,
    heap: BinaryHeap<Reverse<((i64, i64), usize)>>,
}

impl Merged {
    fn of(runs: &[Arc<Run>]) -> Result<Merged> {
        let mut readers = Vec::new();
        for run in runs {
            readers.push(Reader::of(run)?);
        }
        let mut merged = Merged {
            next: vec![Row::default(); readers.len()],
            readers,
            heap: BinaryHeap::new(),
        };
        if merged.readers.len() > 1 {
            for one in 0..merged.readers.len() {
                merged.read(one)?;
            }
        }
        Ok(merged)
    }

    fn read(&mut self, one: usize) -> Result<()> {
        if let Some(row) = self.readers[one].next()? {
            self.next[one] = row;
            self.heap.push(Reverse((row.key(), one)));
        }
        Ok(())
    }

    #[inline]
    #[allow(clippy::should_implement_trait)] // An iterator of results would be read past a fault.
    pub fn next(&mut self) -> Result<Option<Row>> {
        if let [only] = &mut self.readers[..] {
            return only.next();
        }
        let Some(Reverse((_, one))) = self.heap.pop() else {
            return Ok(None);
        };
        let row = self.next[one];
        self.read(one)?;
        Ok(Some(row))
    }
}

/// Reads the rows of one run.
struct Reader {
    run: Arc<Run>,
    file: Option<File>,
    packer: Packer,
    left: u64,
    /// Bytes of the file that are in memory, and where the next row begins: in them, or in those of a run in memory.
    bytes: Vec<u8>,
    at: usize,
}

impl Reader {
    fn of(run: &Arc<Run>) -> Result<Reader> {
        let file = match &run.place {
            Place::Memory(_) => None,
            Place::File(path) => Some(File::open(path).map_err(|source| fault(path, source))?),
        };
        Ok(Reader {
            run: Arc::clone(run),
            file,
            packer: Packer::default(),
            left: run.rows,
            bytes: Vec::new(),
            at: 0,
        })
    }

    #[inline]
    fn next(&mut self) -> Result<Option<Row>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        if self.file.is_some() && self.bytes.len() - self.at < LONGEST {
            self.fill()?;
        }
        let bytes = match &self.run.place {
            Place::Memory(bytes) => bytes,
            Place::File(_) => &self.bytes,
        };
        let rest = bytes.get(self.at..).unwrap_or(&[]);
        let (row, taken) = match rest.first_chunk() {
            Some(bytes) => self.packer.take(bytes),
            None => {
                let mut last = [0; LONGEST];
                last[..rest.len()].copy_from_slice(rest);
                self.packer.take(&last)
            }
        };
        if taken > rest.len() {
            let short = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            return Err(match &self.run.place {
                Place::File(path) => fault(path, short),
                Place::Memory(_) => fault(Path::new(""), short),
            });
        }
        self.at += taken;
        Ok(Some(row))
    }

    /// Has the bytes of the next row, and some more, if the file has them.
    fn fill(&mut self) -> Result<()> {
        self.bytes.drain(..self.at);
        self.at = 0;
        let begin = self.bytes.len();
        self.bytes.resize(begin + READ, 0);
        let (mut end, Place::File(path)) = (begin, &self.run.place) else {
            return Ok(());
        };
        while let Some(file) = self.file.as_mut().filter(|_| end < self.bytes.len()) {
            match file.read(&mut self.bytes[end..]) {
                Ok(0) => break,
                Ok(read) => end += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => return Err(fault(path, source)),
            }
        }
        self.bytes.truncate(end);
        Ok(())
    }
}
