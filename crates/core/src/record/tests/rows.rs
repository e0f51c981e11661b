//! Rows that do not fit their table are reported, and no file remains.

use super::super::columns::Columns;
use super::super::merge::SortKey;
use super::super::writer::{Row, TableWriter};
use super::super::{Names, Visit, NO_NAME};
use super::{names, visit, Folder};
use arrow_array::{ArrayRef, Float64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::errors::Result;
use std::sync::Arc;

/// The writer's error for one row.
fn error<R: Row>(row: R) -> String {
    let folder = Folder::new();
    let error = {
        let mut writer = TableWriter::<R>::create(&folder.0.join("rows.parquet")).unwrap();
        writer.push(row, &names()).unwrap();
        writer.finish(&names()).unwrap_err().to_string()
    };
    assert_eq!(folder.files(), Vec::<String>::new());
    error
}

#[test]
fn a_row_without_a_required_value_is_refused() {
    let nameless = Visit {
        server: NO_NAME,
        ..visit(1, 10)
    };
    let error = error(nameless);
    let expected = "column server needs a value in every row";
    assert!(error.contains(expected), "{error}");
}

/// Puts so many values, or a text, into two columns of numbers.
enum Odd {
    Values(usize),
    Text,
    Array,
}

impl Row for Odd {
    const KEY: SortKey = SortKey {
        time: "first",
        id: None,
    };

    fn schema() -> SchemaRef {
        let field = |name: &str| Field::new(name, DataType::Int64, false);
        Arc::new(Schema::new(vec![field("first"), field("second")]))
    }

    fn key(&self) -> (i64, u64) {
        (0, 0)
    }

    fn put(rows: &[Self], _: &Names, columns: &mut Columns<'_>) -> Result<()> {
        for row in rows {
            match row {
                Odd::Values(count) => {
                    for value in 0..*count as i64 {
                        columns.numbers(std::iter::once(value))?;
                    }
                }
                Odd::Text => columns.texts(std::iter::once("text"))?,
                Odd::Array => {
                    let reals: ArrayRef = Arc::new(Float64Array::from(vec![0.5]));
                    columns.array(reals)?;
                }
            }
        }
        Ok(())
    }
}

#[test]
fn values_of_other_kinds_than_the_columns_are_refused() {
    for (row, expected) in [
        (Odd::Values(1), "fewer values than columns"),
        (Odd::Values(3), "more values than columns"),
        (Odd::Text, "column first holds Int64, got names"),
        (Odd::Array, "column first holds Int64, got Float64"),
    ] {
        let error = error(row);
        assert!(error.contains(expected), "{error}");
    }
}
