//! One column of a row group, read some rows at a time.

use std::sync::{Arc, PoisonError};

use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, Int8Type,
    UInt16Type, UInt32Type, UInt64Type, UInt8Type,
};
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Int32Array, NullArray, PrimitiveArray, StringArray,
};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use parquet::basic::{Repetition, Type as Physical};
use parquet::column::page::PageReader;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type as physical;
use parquet::errors::{ParquetError, Result};
use parquet::schema::types::{ColumnDescPtr, ColumnDescriptor, Type};

use super::names::{Numbered, SharedNames};
use super::pages::{damaged, Checked};

/// The values of a column as they are in the file.
struct Values<T: physical::DataType> {
    reader: ColumnReaderImpl<T>,
    nullable: bool,
    levels: Vec<i16>,
}

impl<T: physical::DataType> Values<T> {
    fn new(column: ColumnDescPtr, pages: Box<dyn PageReader>) -> Self {
        Values {
            nullable: column.max_def_level() > 0,
            reader: ColumnReaderImpl::new(column, pages),
            levels: Vec::new(),
        }
    }

    /// Null rows hold an arbitrary value.
    fn read(&mut self, rows: usize) -> Result<(Vec<T::T>, Option<NullBuffer>)> {
        self.levels.clear();
        let mut values = Vec::with_capacity(rows);
        let (found, ..) =
            self.reader
                .read_records(rows, Some(&mut self.levels), None, &mut values)?;
        if found < rows {
            return Err(damaged("a column has fewer rows than its row group"));
        }
        if !self.nullable || values.len() == rows {
            return Ok((values, None));
        }
        let mut values = values.into_iter();
        let of_row = |&level: &i16| match level {
            0 => T::T::default(),
            _ => values.next().unwrap_or_default(),
        };
        let spread = self.levels.iter().map(of_row).collect();
        let there = self
            .levels
            .iter()
            .map(|&level| level > 0)
            .collect::<Vec<_>>();
        Ok((spread, Some(there.into())))
    }
}

pub struct ColumnReader {
    kind: DataType,
    values: Physicals,
}

enum Physicals {
    Bool(Values<physical::BoolType>),
    Int32(Values<physical::Int32Type>),
    Int64(Values<physical::Int64Type>),
    Float(Values<physical::FloatType>),
    Double(Values<physical::DoubleType>),
    Names(Names),
    Missing,
}

struct Names {
    numbers: Values<physical::Int32Type>,
    list: SharedNames,
    /// The names, unchanged until a new one comes, so that readers recognise the same dictionary.
    array: ArrayRef,
}

impl ColumnReader {
    pub fn new(column: ColumnDescPtr, kind: &DataType, pages: Box<dyn PageReader>) -> Result<Self> {
        let nullable = column.max_def_level() > 0;
        let physical = column.physical_type();
        let pages = Box::new(Checked::new(pages, nullable));
        let values = match (kind, physical) {
            (DataType::Null, _) => Physicals::Missing,
            (_, Physical::BOOLEAN) => Physicals::Bool(Values::new(column, pages)),
            (_, Physical::INT32) => Physicals::Int32(Values::new(column, pages)),
            (_, Physical::INT64) => Physicals::Int64(Values::new(column, pages)),
            (_, Physical::FLOAT) => Physicals::Float(Values::new(column, pages)),
            (_, Physical::DOUBLE) => Physicals::Double(Values::new(column, pages)),
            _ => Physicals::Names(Names::new(column, pages)?),
        };
        Ok(ColumnReader {
            kind: kind.clone(),
            values,
        })
    }

    pub fn read(&mut self, rows: usize) -> Result<ArrayRef> {
        Ok(match &mut self.values {
            Physicals::Bool(values) => {
                let (values, nulls) = values.read(rows)?;
                Arc::new(BooleanArray::new(values.into(), nulls))
            }
            Physicals::Int32(values) => {
                let (values, nulls) = values.read(rows)?;
                match self.kind {
                    DataType::Int8 => numbers::<Int8Type, _>(values, nulls, |value| value as i8),
                    DataType::Int16 => numbers::<Int16Type, _>(values, nulls, |value| value as i16),
                    DataType::UInt8 => numbers::<UInt8Type, _>(values, nulls, |value| value as u8),
                    DataType::UInt16 => {
                        numbers::<UInt16Type, _>(values, nulls, |value| value as u16)
                    }
                    DataType::UInt32 => {
                        numbers::<UInt32Type, _>(values, nulls, |value| value as u32)
                    }
                    _ => numbers::<Int32Type, _>(values, nulls, |value| value),
                }
            }
            Physicals::Int64(values) => {
                let (values, nulls) = values.read(rows)?;
                match self.kind {
                    DataType::UInt64 => {
                        numbers::<UInt64Type, _>(values, nulls, |value| value as u64)
                    }
                    _ => numbers::<Int64Type, _>(values, nulls, |value| value),
                }
            }
            Physicals::Float(values) => {
                let (values, nulls) = values.read(rows)?;
                numbers::<Float32Type, _>(values, nulls, |value| value)
            }
            Physicals::Double(values) => {
                let (values, nulls) = values.read(rows)?;
                numbers::<Float64Type, _>(values, nulls, |value| value)
            }
            Physicals::Names(names) => names.read(rows)?,
            Physicals::Missing => Arc::new(NullArray::new(rows)),
        })
    }
}

/// Values of the same type are not copied.
fn numbers<T: ArrowPrimitiveType, V>(
    values: Vec<V>,
    nulls: Option<NullBuffer>,
    number: impl Fn(V) -> T::Native,
) -> ArrayRef {
    let values: Vec<T::Native> = values.into_iter().map(number).collect();
    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls))
}

impl Names {
    fn new(column: ColumnDescPtr, pages: Box<dyn PageReader>) -> Result<Self> {
        let list = SharedNames::default();
        let as_numbers = of_numbers(&column)?;
        let pages = Numbered::new(pages, column, list.clone());
        Ok(Names {
            numbers: Values::new(as_numbers, Box::new(pages)),
            list,
            array: Arc::new(StringArray::from_iter_values(std::iter::empty::<&str>())),
        })
    }

    fn read(&mut self, rows: usize) -> Result<ArrayRef> {
        let (numbers, nulls) = self.numbers.read(rows)?;
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() != self.array.len() {
            self.array = list.array();
        }
        let numbers = Int32Array::new(numbers.into(), nulls);
        let names = DictionaryArray::try_new(numbers, self.array.clone());
        Ok(Arc::new(names.map_err(|error| {
            ParquetError::General(error.to_string())
        })?))
    }
}

/// The same column, if it held numbers.
fn of_numbers(column: &ColumnDescriptor) -> Result<ColumnDescPtr> {
    let repetition = match column.max_def_level() {
        0 => Repetition::REQUIRED,
        _ => Repetition::OPTIONAL,
    };
    let numbers = Type::primitive_type_builder(column.name(), Physical::INT32);
    let numbers = Arc::new(numbers.with_repetition(repetition).build()?);
    let path = column.path().clone();
    let numbers = ColumnDescriptor::new(numbers, column.max_def_level(), 0, path);
    Ok(Arc::new(numbers))
}
