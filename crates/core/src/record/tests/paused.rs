//! Large tables that are written in segments: a paused writer goes on, and damage to any part of its files is found.

use super::*;
use crate::error::{Error, Result};
use crate::record::rows::NumberedEvent;
use crate::record::writer::Paused;
use crate::saved;

/// More than a row group and a buffer, so the finished rows lie in several row groups.
const BEFORE: i64 = 1_400_000;
const AFTER: i64 = 300_000;

fn push(writer: &mut EventWriter, rows: std::ops::Range<i64>) {
    for i in rows {
        let event = Event {
            place: (i % 2) as u32,
            kind: "gc",
            // Not quite in order, and now and then far too late.
            begin: if i % 10_007 == 0 { i / 2 } else { i ^ 5 },
            end: 2 * i,
            detail: None,
        };
        writer.push(event, &names()).unwrap();
    }
}

fn resumed(folder: &Folder, state: &[u8]) -> Result<EventWriter> {
    let paused: Paused<NumberedEvent> = saved::value(state).unwrap();
    EventWriter::resume(&folder.0, paused)
}

#[test]
fn a_large_table_goes_on_and_damage_anywhere_in_it_is_found() {
    let folder = Folder::new();
    let mut writer = EventWriter::create(&folder.0).unwrap();
    push(&mut writer, 0..BEFORE);
    writer.pause().unwrap();
    let state = saved::bytes(&writer.paused().unwrap()).unwrap();
    push(&mut writer, BEFORE..BEFORE + AFTER);
    writer.seal(&names()).unwrap();
    writer.publish().unwrap();
    let target = folder.0.join("events.parquet");
    let alone = std::fs::read(&target).unwrap();
    let begins = |batch: &RecordBatch| {
        let column = batch.column_by_name("begin").unwrap();
        column.as_primitive::<Int64Type>().values().to_vec()
    };
    assert!(read(&target).iter().flat_map(begins).is_sorted());

    let mut kept = folder.files();
    kept.retain(|name| name.ends_with(".tmp"));
    let large = kept.iter().map(|name| folder.0.join(name));
    let large = large
        .max_by_key(|path| std::fs::metadata(path).unwrap().len())
        .unwrap();
    let bytes = std::fs::read(&large).unwrap();
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&File::open(&large).unwrap());
    assert!(metadata.unwrap().num_row_groups() >= 2);
    for part in 0..=12 {
        let mut harmed = bytes.clone();
        harmed[part * (bytes.len() - 1) / 12] ^= 0x40;
        std::fs::write(&large, &harmed).unwrap();
        let found = resumed(&folder, &state).err();
        assert!(matches!(found, Some(Error::Saved(why)) if why.ends_with("is damaged")));
    }
    std::fs::write(&large, &bytes).unwrap();

    let mut again = resumed(&folder, &state).unwrap();
    push(&mut again, BEFORE..BEFORE + AFTER);
    assert_eq!(again.finish(&names()).unwrap(), (BEFORE + AFTER) as u64);
    assert!(std::fs::read(&target).unwrap() == alone);
}
