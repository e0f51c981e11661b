//! The note that lets Arrow's readers (Polars, pandas) recognise columns of names: the Arrow schema
//! as a message of Arrow's IPC format, in base64, under the key `ARROW:schema` of the file's
//! metadata.
//!
//! Parquet itself knows only text. Source of tables, slots and numbers: `Schema.fbs` and
//! `Message.fbs` of <https://github.com/apache/arrow/tree/main/format>.

use arrow_schema::{DataType, Field, Schema};
use base64::prelude::{Engine, BASE64_STANDARD};
use flatbuffers::{FlatBufferBuilder, TableFinishedWIPOffset, VOffsetT, WIPOffset};

use super::types::is_names;

pub const KEY: &str = "ARROW:schema";

type Buffer = FlatBufferBuilder<'static>;
type Table = WIPOffset<TableFinishedWIPOffset>;

/// `MetadataVersion.V5` and `MessageHeader.Schema`.
const VERSION: i16 = 4;
const IS_SCHEMA: u8 = 1;
/// Of the union `Type`.
const INT: u8 = 2;
const FLOATING_POINT: u8 = 3;
const UTF8: u8 = 5;
const BOOL: u8 = 6;
/// `Precision.SINGLE` and `DOUBLE`.
const SINGLE: i16 = 1;
const DOUBLE: i16 = 2;

/// The position of a table's field with this number: two entries of its head come before the first.
const fn slot(number: VOffsetT) -> VOffsetT {
    4 + 2 * number
}

pub fn of(schema: &Schema) -> String {
    let mut buffer = Buffer::new();
    let fields: Vec<Table> = (0..)
        .zip(schema.fields())
        .map(|(number, field)| field_table(&mut buffer, field, number))
        .collect();
    let fields = buffer.create_vector(&fields);
    let begun = buffer.start_table();
    buffer.push_slot_always(slot(1), fields);
    let schema = buffer.end_table(begun);
    let begun = buffer.start_table();
    buffer.push_slot_always(slot(0), VERSION);
    buffer.push_slot_always(slot(1), IS_SCHEMA);
    buffer.push_slot_always(slot(2), schema);
    let message = buffer.end_table(begun);
    buffer.finish(message, None);
    let message = buffer.finished_data();
    let length = (message.len() as u32).to_le_bytes();
    // The prefix of a message in a stream: a mark and the length.
    BASE64_STANDARD.encode([&[0xff; 4], &length[..], message].concat())
}

fn field_table(buffer: &mut Buffer, field: &Field, number: i64) -> Table {
    let name = buffer.create_string(field.name());
    let (kind, kind_table) = type_of(buffer, field.data_type());
    let children = buffer.create_vector::<Table>(&[]);
    let dictionary = is_names(field.data_type()).then(|| {
        let keys = int(buffer, 32, true);
        let begun = buffer.start_table();
        buffer.push_slot_always(slot(0), number);
        buffer.push_slot_always(slot(1), keys);
        buffer.end_table(begun)
    });
    let begun = buffer.start_table();
    buffer.push_slot_always(slot(0), name);
    buffer.push_slot_always(slot(1), field.is_nullable());
    buffer.push_slot_always(slot(2), kind);
    buffer.push_slot_always(slot(3), kind_table);
    if let Some(dictionary) = dictionary {
        buffer.push_slot_always(slot(4), dictionary);
    }
    buffer.push_slot_always(slot(5), children);
    buffer.end_table(begun)
}

/// Of names, the type of the names.
fn type_of(buffer: &mut Buffer, kind: &DataType) -> (u8, Table) {
    match kind {
        DataType::Boolean => (BOOL, empty(buffer)),
        DataType::Float32 => (FLOATING_POINT, floating_point(buffer, SINGLE)),
        DataType::Float64 => (FLOATING_POINT, floating_point(buffer, DOUBLE)),
        kind => match kind.primitive_width() {
            Some(bytes) => (INT, int(buffer, 8 * bytes as i32, kind.is_signed_integer())),
            None => (UTF8, empty(buffer)),
        },
    }
}

fn empty(buffer: &mut Buffer) -> Table {
    let begun = buffer.start_table();
    buffer.end_table(begun)
}

fn int(buffer: &mut Buffer, bits: i32, signed: bool) -> Table {
    let begun = buffer.start_table();
    buffer.push_slot_always(slot(0), bits);
    buffer.push_slot_always(slot(1), signed);
    buffer.end_table(begun)
}

fn floating_point(buffer: &mut Buffer, precision: i16) -> Table {
    let begun = buffer.start_table();
    buffer.push_slot_always(slot(0), precision);
    buffer.end_table(begun)
}
