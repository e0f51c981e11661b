//! The bytes of a file → segments: whatever they are, reading ends, within bounds, and every length holds.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use tailrace_core::capture::merge::segments_from;

fuzz_target!(|bytes: &[u8]| {
    let stream = Box::new(Cursor::new(bytes.to_vec()));
    let report = segments_from(stream, Path::new("fuzz"), |segment| {
        assert!(segment.payload.len() <= segment.len as usize);
        assert!((0..1 << 62).contains(&segment.time));
        Ok(())
    });
    if let Ok(report) = report {
        assert!(report.lost_bytes <= report.bytes);
        assert!(report.segments <= report.packets);
    }
});
