//! From sums to windows: the running queue, means, and one row for every window of every group.
//! Silent windows are included, except the middle of long silent stretches (`grid`).

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::Int32Builder;
use arrow_array::{ArrayRef, DictionaryArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{Field, Schema};

use super::grid::Grid;
use super::groups::Group;
use super::partial::{Partial, Sums};
use super::slab::Order;
use super::Plan;
use crate::error::{Error, Result};

pub(crate) fn finish(partial: &Partial, order: &[Order], plan: &Plan) -> Result<RecordBatch> {
    let grid = Grid::new(partial, plan)?;
    let mut columns = Columns::new(grid.rows());
    for cell in &partial.cells {
        columns.put(grid.row(cell.group, cell.window), &cell.sums)?;
    }
    for (at, &group) in grid.groups.iter().enumerate() {
        let rows = at * grid.windows..(at + 1) * grid.windows;
        columns.run_queue(rows, partial.opening[group as usize], plan.window_ns)?;
    }
    let mut orders = Vec::new();
    if plan.queue_max || plan.percentiles {
        let silent = |&queue_max: &i64| Order {
            queue_max,
            ..Order::default()
        };
        orders = columns.queue_start.iter().map(silent).collect();
        for (cell, &of_cell) in partial.cells.iter().zip(order) {
            orders[grid.row(cell.group, cell.window)] = of_cell;
        }
    }
    columns.batch(&grid, &partial.groups, &orders, plan)
}

struct Columns {
    arrivals: Vec<i64>,
    departures: Vec<i64>,
    queue_start: Vec<i64>,
    queue_mean: Vec<f64>,
    queue_area: Vec<i64>,
    /// Null without departures.
    response_mean: Vec<f64>,
    vlrt: Vec<i64>,
    drops: Vec<i64>,
}

impl Columns {
    fn new(rows: usize) -> Self {
        Columns {
            arrivals: vec![0; rows],
            departures: vec![0; rows],
            queue_start: vec![0; rows],
            queue_mean: vec![0.0; rows],
            queue_area: vec![0; rows],
            response_mean: vec![0.0; rows],
            vlrt: vec![0; rows],
            drops: vec![0; rows],
        }
    }

    fn put(&mut self, row: usize, sums: &Sums) -> Result<()> {
        self.arrivals[row] = sums.arrivals;
        self.departures[row] = sums.departures;
        self.vlrt[row] = sums.vlrt;
        self.drops[row] = sums.drops;
        self.queue_area[row] = i64::try_from(sums.area_ns).map_err(|_| too_large())?;
        if sums.departures > 0 {
            self.response_mean[row] = ratio(sums.response_ns, sums.departures);
        }
        Ok(())
    }

    /// From the areas of each window's events to those of all visits present.
    fn run_queue(&mut self, rows: Range<usize>, opening: i64, window_ns: i64) -> Result<()> {
        let mut queue = opening;
        for row in rows {
            self.queue_start[row] = queue;
            let standing = queue.checked_mul(window_ns).ok_or_else(too_large)?;
            let area = self.queue_area[row]
                .checked_add(standing)
                .ok_or_else(too_large)?;
            self.queue_area[row] = area;
            self.queue_mean[row] = ratio(i128::from(area), window_ns);
            queue += self.arrivals[row] - self.departures[row];
        }
        Ok(())
    }

    fn batch(
        self,
        grid: &Grid,
        groups: &[Group],
        orders: &[Order],
        plan: &Plan,
    ) -> Result<RecordBatch> {
        let mut fields: Vec<Field> = Vec::new();
        let mut columns: Vec<ArrayRef> = Vec::new();
        let mut put = |name: &str, nullable: bool, column: ArrayRef| {
            fields.push(Field::new(name, column.data_type().clone(), nullable));
            columns.push(column);
        };
        let ints = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
        let mut windows = Vec::with_capacity(grid.rows());
        for _ in &grid.groups {
            windows.extend(grid.starts());
        }
        let departed = self.departures.iter().map(|&count| count > 0).collect();

        put(
            "server",
            false,
            names(grid, |group| Some(groups[group as usize].server.as_str()))?,
        );
        if plan.by_interaction {
            put(
                "interaction",
                true,
                names(grid, |group| groups[group as usize].interaction.as_deref())?,
            );
        }
        put("window", false, ints(windows));
        put("arrivals", false, ints(self.arrivals));
        put("departures", false, ints(self.departures));
        put("queue_start", false, ints(self.queue_start));
        put(
            "queue_mean",
            false,
            Arc::new(Float64Array::from(self.queue_mean)),
        );
        put("queue_area_ns", false, ints(self.queue_area));
        if plan.queue_max {
            put(
                "queue_max",
                false,
                ints(orders.iter().map(|order| order.queue_max).collect()),
            );
        }
        put(
            "response_ns_mean",
            true,
            Arc::new(Float64Array::new(self.response_mean.into(), Some(departed))),
        );
        if plan.percentiles {
            for (at, name) in ["p50", "p95", "p99", "p999"].iter().enumerate() {
                let column: Int64Array = orders.iter().map(|order| order.response_ns[at]).collect();
                put(&format!("response_ns_{name}"), true, Arc::new(column));
            }
        }
        put("vlrt", false, ints(self.vlrt));
        put("drops", false, ints(self.drops));
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(|e| Error::Table {
            path: "windows".into(),
            message: e.to_string(),
        })
    }
}

fn too_large() -> Error {
    Error::Options("the queue area of a window leaves 64 bits; choose a shorter window".to_string())
}

/// A dictionary column with one name per row, its dictionary sorted.
fn names<'a>(grid: &Grid, name: impl Fn(u32) -> Option<&'a str>) -> Result<ArrayRef> {
    let mut dictionary: Vec<&str> = grid
        .groups
        .iter()
        .filter_map(|&group| name(group))
        .collect();
    dictionary.sort_unstable();
    dictionary.dedup();
    let mut keys = Int32Builder::with_capacity(grid.rows());
    for &group in &grid.groups {
        match name(group).and_then(|n| dictionary.binary_search(&n).ok()) {
            Some(at) => keys.append_value_n(at as i32, grid.windows),
            None => keys.append_nulls(grid.windows),
        }
    }
    let keys = keys.finish();
    let values = Arc::new(StringArray::from(dictionary));
    let column = DictionaryArray::try_new(keys, values).map_err(|e| Error::Table {
        path: "windows".into(),
        message: e.to_string(),
    })?;
    debug_assert_eq!(column.keys().len(), grid.rows());
    Ok(Arc::new(column) as ArrayRef)
}

/// `n / d` rounded once, as Python's division of whole numbers. Converting n first would round
/// twice above 2^53.
fn ratio(n: i128, d: i64) -> f64 {
    const EXACT: u128 = 1 << 53;
    let (size, d) = (n.unsigned_abs(), d.unsigned_abs() as u128);
    if size < EXACT && d < EXACT {
        return n as f64 / d as f64;
    }
    // Enough quotient bits for one rounding (54 and more), with the remainder as a sticky last bit.
    let shift = size.leading_zeros().min(127);
    let (quotient, rest) = ((size << shift) / d, (size << shift) % d);
    let rounded = (quotient | u128::from(rest != 0)) as f64 / (1u128 << shift) as f64;
    if n < 0 {
        -rounded
    } else {
        rounded
    }
}

#[cfg(test)]
mod tests {
    use super::ratio;

    #[test]
    fn ratio_rounds_once() {
        // 2^53 + 1 is not a double; rounding it before the division would give 2^53 / 3.
        assert_eq!(ratio((1 << 53) + 1, 3), 3002399751580331.0);
        assert_eq!(ratio(-(3 << 60), 2), -((3u64 << 59) as f64));
        assert_eq!(ratio(7, 2), 3.5);
        // (2^54 + 2) / 2^54 lies half way between 1 and its neighbour, and is rounded to the even
        // one.
        assert_eq!(ratio((1i128 << 54) + 2, 1 << 54), 1.0);
        assert_eq!(ratio((1i128 << 54) + 3, 1 << 54), 1.0 + f64::EPSILON);
    }
}
