//! Spans of OTLP in JSON: what the Collector's file exporter and the API of Tempo write.
//!
//! ```text
//! {"resourceSpans": [{"resource": {…}, "scopeSpans": [{"spans": [{"traceId": …, "kind": 2, …}]}]}]}
//! ```

use super::attributes::{pairs, Attributes, Known, SERVICE};
use super::sheet::{kind_of, Draft, Id, Sheet};
use crate::json::{Parser, Result, Scalar};

pub fn read<'t>(parser: &mut Parser<'t>, known: &Known, sheet: &mut Sheet) -> Result<()> {
    parser.object(|parser, key| match key {
        b"resourceSpans" | b"batches" => parser.objects(|parser| resource(parser, known, sheet)),
        // The second version of Tempo's API, and the third of Jaeger's.
        b"trace" | b"result" if parser.peek()? == b'{' => parser.object(|parser, key| match key {
            b"resourceSpans" => parser.objects(|parser| resource(parser, known, sheet)),
            _ => parser.skip(),
        }),
        _ => parser.skip(),
    })
}

fn resource<'t>(parser: &mut Parser<'t>, known: &Known, sheet: &mut Sheet) -> Result<()> {
    let mut about = Attributes::default();
    let (mut is_known, mut later) = (false, Vec::new());
    parser.object(|parser, key| match key {
        b"resource" => {
            is_known = true;
            parser.object(|parser, key| match key {
                b"attributes" => attributes(parser, known, &mut about),
                _ => parser.skip(),
            })
        }
        b"scopeSpans" | b"instrumentationLibrarySpans" if is_known => {
            scopes(parser, known, &about, sheet)
        }
        b"scopeSpans" | b"instrumentationLibrarySpans" => {
            later.push(parser.clone());
            parser.skip()
        }
        _ => parser.skip(),
    })?;
    for mut parser in later {
        scopes(&mut parser, known, &about, sheet)?;
    }
    Ok(())
}

fn scopes<'t>(
    parser: &mut Parser<'t>,
    known: &Known,
    about: &Attributes<'t>,
    sheet: &mut Sheet,
) -> Result<()> {
    let service = sheet.texts.number(about.first(&[SERVICE]));
    let mut values = Attributes::default();
    parser.objects(|parser| {
        parser.object(|parser, key| match key {
            b"spans" => parser.objects(|parser| {
                values.clear();
                let found = span(parser, known, &mut values)?;
                values.take(about, &known.host);
                sheet.add(&found, service, &values, known);
                Ok(())
            }),
            _ => parser.skip(),
        })
    })
}

fn span<'t>(
    parser: &mut Parser<'t>,
    known: &Known,
    values: &mut Attributes<'t>,
) -> Result<Draft<'t>> {
    let mut span = Draft::default();
    parser.object(|parser, key| {
        match key {
            b"traceId" => span.trace = Id::Text(parser.scalar()?),
            b"spanId" => span.id = Id::Text(parser.scalar()?),
            b"parentSpanId" => span.parent = Id::Text(parser.scalar()?),
            b"name" => span.name = parser.scalar()?,
            b"traceState" => span.state = parser.scalar()?,
            b"kind" => span.kind = kind(&parser.scalar()?),
            b"startTimeUnixNano" => span.begin = parser.scalar()?.whole(),
            b"endTimeUnixNano" => span.end = parser.scalar()?.whole(),
            b"attributes" => attributes(parser, known, values)?,
            b"status" => {
                parser.object(|parser, key| {
                    match key {
                        b"code" => span.failed = has_failed(&parser.scalar()?),
                        _ => parser.skip()?,
                    }
                    Ok(())
                })?;
            }
            _ => parser.skip()?,
        }
        Ok(())
    })?;
    Ok(span)
}

fn kind(value: &Scalar<'_>) -> u8 {
    let text = value.text().unwrap_or_default();
    match text {
        [digit @ b'2'..=b'5'] => digit - b'0',
        _ => text.strip_prefix(b"SPAN_KIND_").map_or(0, kind_of),
    }
}

fn has_failed(code: &Scalar<'_>) -> bool {
    *code == Scalar::Integer(b"2") || code.text() == Some(b"STATUS_CODE_ERROR")
}

/// `[{"key": "http.route", "value": {"stringValue": "/x"}}]`; numbers may be text.
fn attributes<'t>(parser: &mut Parser<'t>, known: &Known, into: &mut Attributes<'t>) -> Result<()> {
    pairs(parser, known, into, first_value)
}

fn first_value<'t>(parser: &mut Parser<'t>) -> Result<Scalar<'t>> {
    let mut first = None;
    parser.object(|parser, _| {
        if first.is_some() {
            return parser.skip();
        }
        first = Some(parser.scalar()?);
        Ok(())
    })?;
    Ok(first.unwrap_or_default())
}
