//! Which stages of decoding have a thread of their own. Each works on what the one before it has done, in its order, so
//! the tables are the same to the byte with any number of threads.
//! ```text
//! reading, unpacking ─▶ frames, connections, protocols ─▶ strangers, call graph ─▶ tables
//! ```

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::source::packing;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stages {
    pub reading: bool,
    pub graph: bool,
    pub tables: bool,
}

impl Stages {
    /// For so many threads at most; 0: one for each core.
    pub fn of(paths: &[PathBuf], threads: usize) -> Stages {
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            some => some,
        };
        let files = paths.iter().all(|path| path.as_os_str() != "-");
        let packed = paths.iter().any(|path| is_packed(path));
        let reading = files && threads > if packed { 1 } else { 3 };
        let others = threads - usize::from(reading);
        Stages {
            reading,
            graph: others > 1,
            tables: others > 2,
        }
    }
}

/// Whether a file must be unpacked, which takes longer than reading it.
fn is_packed(path: &Path) -> bool {
    let mut magic = Vec::new();
    File::open(path).is_ok_and(|file| file.take(6).read_to_end(&mut magic).is_ok())
        && packing(&magic).is_ok_and(|found| found != "none")
}
