//! Combines rows from several batches into one batch.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, Int8Type,
    UInt16Type, UInt32Type, UInt64Type, UInt8Type,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Int32Array, PrimitiveArray, RecordBatch,
    StringArray,
};
use arrow_schema::{ArrowError, DataType};
use rustc_hash::FxHashMap;

/// The place of a row: its batch and its row there.
pub type Pick = (usize, usize);

/// Copies the picked rows into one batch, in the order of `picks`. All batches must have the same
/// columns.
pub fn gather(batches: &[RecordBatch], picks: &[Pick]) -> Result<RecordBatch, ArrowError> {
    let Some(first) = batches.first() else {
        return Err(ArrowError::InvalidArgumentError("no batches".to_owned()));
    };
    let columns = (0..first.num_columns()).map(|at| {
        let parts: Vec<&ArrayRef> = batches.iter().map(|batch| batch.column(at)).collect();
        column(&parts, picks)
    });
    RecordBatch::try_new(first.schema(), columns.collect::<Result<_, _>>()?)
}

fn column(parts: &[&ArrayRef], picks: &[Pick]) -> Result<ArrayRef, ArrowError> {
    let kind = parts[0].data_type();
    if parts.iter().any(|part| part.data_type() != kind) {
        return Err(ArrowError::SchemaError(format!(
            "a column is not {kind} everywhere"
        )));
    }
    Ok(match kind {
        DataType::Int8 => numbers::<Int8Type>(parts, picks),
        DataType::Int16 => numbers::<Int16Type>(parts, picks),
        DataType::Int32 => numbers::<Int32Type>(parts, picks),
        DataType::Int64 => numbers::<Int64Type>(parts, picks),
        DataType::UInt8 => numbers::<UInt8Type>(parts, picks),
        DataType::UInt16 => numbers::<UInt16Type>(parts, picks),
        DataType::UInt32 => numbers::<UInt32Type>(parts, picks),
        DataType::UInt64 => numbers::<UInt64Type>(parts, picks),
        DataType::Float32 => numbers::<Float32Type>(parts, picks),
        DataType::Float64 => numbers::<Float64Type>(parts, picks),
        DataType::Boolean => {
            let parts: Vec<&BooleanArray> = parts.iter().map(|part| part.as_boolean()).collect();
            let value = |&(part, row): &Pick| {
                let values = parts[part];
                values.is_valid(row).then(|| values.value(row))
            };
            Arc::new(picks.iter().map(value).collect::<BooleanArray>())
        }
        DataType::Dictionary(..) => return names(parts, picks),
        kind => return Err(ArrowError::NotYetImplemented(format!("rows of {kind}"))),
    })
}

fn numbers<T: ArrowPrimitiveType>(parts: &[&ArrayRef], picks: &[Pick]) -> ArrayRef {
    let parts: Vec<&PrimitiveArray<T>> = parts.iter().map(|part| part.as_primitive()).collect();
    if parts.iter().all(|part| part.null_count() == 0) {
        let values = picks.iter().map(|&(part, row)| parts[part].value(row));
        return Arc::new(PrimitiveArray::<T>::from_iter_values(values));
    }
    let value = |&(part, row): &Pick| {
        let values = parts[part];
        values.is_valid(row).then(|| values.value(row))
    };
    Arc::new(picks.iter().map(value).collect::<PrimitiveArray<T>>())
}

/// Each part has a dictionary of its own; the result has one with the names that its rows use.
fn names(parts: &[&ArrayRef], picks: &[Pick]) -> Result<ArrayRef, ArrowError> {
    let lists = parts.iter().map(|part| {
        let dictionary = part.as_dictionary_opt::<Int32Type>()?;
        Some((
            dictionary.keys(),
            dictionary.values().as_string_opt::<i32>()?,
        ))
    });
    let lists: Option<Vec<(&Int32Array, &StringArray)>> = lists.collect();
    let no_names = || ArrowError::SchemaError("a dictionary holds no text".to_owned());
    let lists = lists.ok_or_else(no_names)?;
    let mut numbers: Vec<Vec<Option<i32>>> = lists
        .iter()
        .map(|(_, names)| vec![None; names.len()])
        .collect();
    let mut known: FxHashMap<&str, i32> = FxHashMap::default();
    let mut found: Vec<&str> = Vec::new();
    let key = |&(part, row): &Pick| {
        let (keys, names) = lists[part];
        let key = keys.is_valid(row).then(|| keys.value(row) as usize)?;
        if names.is_null(key) {
            return None;
        }
        let number = &mut numbers[part][key];
        if number.is_none() {
            let name = names.value(key);
            *number = Some(*known.entry(name).or_insert_with(|| {
                found.push(name);
                found.len() as i32 - 1
            }));
        }
        *number
    };
    let keys: Int32Array = picks.iter().map(key).collect();
    let names = Arc::new(StringArray::from_iter_values(found));
    Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(
        keys, names,
    )?))
}
