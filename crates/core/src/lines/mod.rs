//! Lines of text that have one of a few layouts, cut into columns.
//!
//! ```text
//! 10.0.0.9 - - [20/Nov/2026:16:49:00 +0000] "GET /x HTTP/1.1" 200 512 rt=1.203
//! skip         [clock                     ] "request        " integer … rt=decimal
//! ```
//!
//! A layout alternates literals and fields; a field ends before the first of its stop bytes. A line that differs from
//! all layouts in anything is left out. The caller reads it in another, slower way, so a layout may be strict.

mod fields;
pub mod halves;
mod moments;
mod sheet;
mod texts;
mod values;
pub mod visits;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use memchr::memchr;
use serde::Deserialize;

use crate::capture::names::Namer;
use fields::Ready;
use sheet::Sheet;
pub use sheet::{NONE, UNKNOWN};
pub use texts::Texts;

/// Most lines have so many bytes, so this room is enough for them.
const LINE_USUAL: usize = 100;
/// Longer lines are left out.
const LINE_MAX: usize = 1 << 16;

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Anything; it has no column.
    Skip,
    /// Anything that does not begin with a digit; it has no column.
    Word,
    /// `20/Nov/2026:16:49:00 +0000`, in ns since the Unix epoch.
    Clock,
    /// `20/Nov/2026:16:49:00.123` in UTC, in ns since the Unix epoch.
    ClockMs,
    /// `Fri Nov 20 16:49:00 2026` in UTC, in ns since the Unix epoch.
    ClockC,
    /// `2026-11-20T16:49:00.123Z`, also with an offset such as `+01:00` or without one (UTC), in ns since the Unix epoch.
    Iso,
    /// The same with `Z` alone.
    IsoUtc,
    /// `2026-11-20 16:49:00,123` in UTC, with `T` and a point as well, and with three to six decimals.
    IsoLocal,
    /// `1.203`, times 10⁹; `-` is null.
    Decimal,
    /// `1.203` with three to six decimals, times 10⁹.
    Seconds,
    /// `-1`; `-` is null.
    Integer,
    Text,
    /// `GET /x?y HTTP/1.1`: the method and the path of the request.
    Request,
    /// `GET`: the method of the request, which is also a text.
    Method,
    /// `/x?y`: the path of the request, and what follows it.
    Target,
    /// `/x`: the path of the request alone.
    Path,
    /// Anything up to the literal after it; without `=`, and with a space at the end. It has no column.
    Until,
    /// A value of JSON; it has no column.
    Value,
    /// A number of JSON, as a double that is printed with as few digits as name it, times 10⁹.
    Double,
}

/// What a column has.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Values {
    /// Numbers that are not negative, or [`NONE`].
    Numbers,
    /// Any numbers, or [`UNKNOWN`].
    Signed,
    /// Numbers of texts ([`Texts`]).
    Texts,
    /// Numbers of names of requests ([`Namer`]), or [`NONE`].
    Names,
}

impl Kind {
    fn fits(self, values: Values) -> bool {
        match self {
            Kind::Text | Kind::Method => values == Values::Texts,
            Kind::Request | Kind::Target | Kind::Path => values == Values::Names,
            _ => matches!(values, Values::Numbers | Values::Signed),
        }
    }

    /// Whether a request has a name because of such a field.
    fn names(self) -> bool {
        matches!(
            self,
            Kind::Request | Kind::Method | Kind::Target | Kind::Path
        )
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// The literal before it.
    before: String,
    kind: Kind,
    /// Where its value goes.
    column: Option<usize>,
    /// It ends before the first of these bytes, or at the end of the line. With a space among them, it also ends before
    /// a byte that is no printable ASCII.
    stop: String,
    /// It ends after so many bytes at the latest.
    #[serde(default = "any")]
    most: usize,
}

fn any() -> usize {
    usize::MAX
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    fields: Vec<Field>,
    /// The literal after the last field.
    after: String,
    /// The line ends there.
    whole: bool,
}

/// What the lines of a text may look like; a line has the first layout that fits.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The names of the columns, and what they have.
    columns: Vec<(String, Values)>,
    layouts: Vec<Layout>,
}

impl Plan {
    /// Why the plan cannot be followed.
    pub fn fault(&self) -> Option<&'static str> {
        let fields = || self.layouts.iter().flat_map(|layout| &layout.fields);
        let fits = |field: &Field| match field.column {
            Some(column) => {
                let known = self.columns.get(column);
                known.is_some_and(|&(_, values)| field.kind.fits(values))
            }
            None => true,
        };
        if !fields().all(fits) {
            return Some("a field has a column that is missing or of another kind");
        }
        let stopless = |field: &Field| !field.stop.is_ascii();
        fields().any(stopless).then_some("a stop byte is not ASCII")
    }
}

/// Cuts the lines of a log, block by block; the numbers of its texts stay the same.
#[derive(Debug)]
pub struct Cutter {
    plan: Plan,
    texts: Vec<Texts>,
    lines: u32,
}

impl Cutter {
    pub fn new(plan: Plan) -> Cutter {
        let texts = plan.columns.iter().map(|_| Texts::default()).collect();
        Cutter {
            plan,
            texts,
            lines: 0,
        }
    }

    /// How many lines the last block had.
    pub fn lines(&self) -> u32 {
        self.lines
    }

    /// The texts of a column by their numbers, from this number on.
    pub fn texts(&self, column: &str, first: usize) -> &[String] {
        let at = self
            .plan
            .columns
            .iter()
            .position(|(name, _)| name == column);
        let texts = at.and_then(|at| self.texts.get(at));
        texts
            .and_then(|texts| texts.all().get(first..))
            .unwrap_or(&[])
    }

    /// The rows of the lines that have a layout: `line`, counted from 0, and the columns that any layout has. Requests
    /// are named in the order of their lines.
    pub fn cut(
        &mut self,
        block: &[u8],
        namer: &mut Namer,
        names: &mut Vec<String>,
    ) -> Result<RecordBatch, ArrowError> {
        let layouts: Vec<_> = self.plan.layouts.iter().map(Ready::of).collect();
        let mut sheet = Sheet::of(&self.plan, &mut self.texts, namer, names);
        self.lines = 0;
        for (number, line) in (0..).zip(lines_of(block)) {
            self.lines += 1;
            let line = match line.last() {
                Some(b'\r') => {
                    let end = line.iter().rposition(|&byte| byte != b'\r');
                    &line[..end.map_or(0, |last| last + 1)]
                }
                _ => line,
            };
            if line.is_empty() || line.len() > LINE_MAX {
                continue;
            }
            if self.lines == 1 {
                sheet.reserve(block.len() / line.len().max(LINE_USUAL) + 1);
            }
            if layouts.iter().any(|layout| layout.read(line, &mut sheet)) && sheet.keep(line) {
                sheet.count(number);
            }
        }
        sheet.into_batch(&self.plan)
    }
}

fn lines_of(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(block);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = memchr(b'\n', text);
        rest = end.map(|at| &text[at + 1..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

#[cfg(test)]
mod tests;
