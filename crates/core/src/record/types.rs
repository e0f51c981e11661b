//! The types of columns: Arrow's, which the engine and Python use, and Parquet's, which are in the
//! file.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::errors::{ParquetError, Result};
use parquet::schema::types::{ColumnDescriptor, Type, TypePtr};

/// A dictionary of text: the type of names in memory.
pub fn names() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

pub fn is_names(kind: &DataType) -> bool {
    matches!(kind, DataType::Dictionary(key, value) if **key == DataType::Int32 && **value == DataType::Utf8)
}

/// The schema of a file that has these columns.
pub fn parquet_schema(schema: &Schema) -> Result<TypePtr> {
    let fields = schema.fields().iter().map(|field| parquet_type(field));
    let group = Type::group_type_builder("schema").with_fields(fields.collect::<Result<_>>()?);
    Ok(Arc::new(group.build()?))
}

fn parquet_type(field: &Field) -> Result<TypePtr> {
    let whole = |bits, signed| Some(LogicalType::integer(bits, signed));
    let (physical, logical) = match field.data_type() {
        DataType::Boolean => (Physical::BOOLEAN, None),
        DataType::Int8 => (Physical::INT32, whole(8, true)),
        DataType::Int16 => (Physical::INT32, whole(16, true)),
        DataType::Int32 => (Physical::INT32, None),
        DataType::Int64 => (Physical::INT64, None),
        DataType::UInt8 => (Physical::INT32, whole(8, false)),
        DataType::UInt16 => (Physical::INT32, whole(16, false)),
        DataType::UInt32 => (Physical::INT32, whole(32, false)),
        DataType::UInt64 => (Physical::INT64, whole(64, false)),
        DataType::Float32 => (Physical::FLOAT, None),
        DataType::Float64 => (Physical::DOUBLE, None),
        kind if *kind == DataType::Utf8 || is_names(kind) => {
            (Physical::BYTE_ARRAY, Some(LogicalType::String))
        }
        kind => {
            return Err(ParquetError::General(format!(
                "column {} holds {kind}; a table holds numbers, truth values, text and names",
                field.name()
            )))
        }
    };
    let repetition = match field.is_nullable() {
        true => Repetition::OPTIONAL,
        false => Repetition::REQUIRED,
    };
    let column = Type::primitive_type_builder(field.name(), physical)
        .with_logical_type(logical)
        .with_repetition(repetition);
    Ok(Arc::new(column.build()?))
}

/// The type as which a column of a file is read: text as names. None for nested columns and other
/// types.
pub fn arrow_type(column: &ColumnDescriptor) -> Option<DataType> {
    if column.path().parts().len() > 1 || column.max_rep_level() > 0 {
        return None;
    }
    if let Some(LogicalType::Unknown) = column.logical_type_ref() {
        return Some(DataType::Null);
    }
    match column.physical_type() {
        Physical::BOOLEAN => Some(DataType::Boolean),
        Physical::FLOAT => Some(DataType::Float32),
        Physical::DOUBLE => Some(DataType::Float64),
        Physical::BYTE_ARRAY => is_text(column).then(names),
        Physical::INT32 => whole_number(column, 32),
        Physical::INT64 => whole_number(column, 64),
        _ => None,
    }
}

fn is_text(column: &ColumnDescriptor) -> bool {
    matches!(
        column.logical_type_ref(),
        Some(LogicalType::String | LogicalType::Enum | LogicalType::Json)
    ) || matches!(
        column.converted_type(),
        ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON
    )
}

/// Older files state the width of a number only as a converted type.
fn whole_number(column: &ColumnDescriptor, physical_bits: i8) -> Option<DataType> {
    let (bits, signed) = match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Integer(whole)), _) => (whole.bit_width, whole.is_signed),
        (Some(_), _) => return None,
        (None, ConvertedType::NONE) => (physical_bits, true),
        (None, ConvertedType::INT_8) => (8, true),
        (None, ConvertedType::INT_16) => (16, true),
        (None, ConvertedType::INT_32) => (32, true),
        (None, ConvertedType::INT_64) => (64, true),
        (None, ConvertedType::UINT_8) => (8, false),
        (None, ConvertedType::UINT_16) => (16, false),
        (None, ConvertedType::UINT_32) => (32, false),
        (None, ConvertedType::UINT_64) => (64, false),
        (None, _) => return None,
    };
    Some(match (bits, signed) {
        (8, true) => DataType::Int8,
        (16, true) => DataType::Int16,
        (32, true) => DataType::Int32,
        (64, true) => DataType::Int64,
        (8, false) => DataType::UInt8,
        (16, false) => DataType::UInt16,
        (32, false) => DataType::UInt32,
        (64, false) => DataType::UInt64,
        _ => return None,
    })
    .filter(|_| (bits == 64) == (physical_bits == 64))
}

/// The type of a column as its file states it, for a message.
pub fn described(column: &ColumnDescriptor) -> String {
    if column.path().parts().len() > 1 || column.max_rep_level() > 0 {
        return "a list or a structure".to_owned();
    }
    match (column.logical_type_ref(), column.converted_type()) {
        (Some(logical), _) => format!("{logical:?}"),
        (None, ConvertedType::NONE) => column.physical_type().to_string(),
        (None, converted) => converted.to_string(),
    }
}
