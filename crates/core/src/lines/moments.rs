//! Moments in ns since the Unix epoch. None: the text has another form.

use super::values::digits;

const SECOND: i64 = 1_000_000_000;
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

const DAYS: [&[u8; 3]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];

/// Reads clocks, and remembers the last one: most lines of a log have the second of the line before.
#[derive(Default)]
pub struct Clock {
    text: Vec<u8>,
    ns: i64,
}

impl Clock {
    pub fn read(&mut self, text: &[u8], moment: fn(&[u8]) -> Option<i64>) -> Option<i64> {
        if text != self.text || text.is_empty() {
            self.ns = moment(text)?;
            self.text.clear();
            self.text.extend_from_slice(text);
        }
        Some(self.ns)
    }
}

/// `20/Nov/2026:16:49:00 +0000`
pub fn zoned(text: &[u8]) -> Option<i64> {
    let (date, rest) = text.split_first_chunk()?;
    let [b' ', sign @ (b'+' | b'-'), h1, h2, n1, n2] = *rest else {
        return None;
    };
    let ahead = offset(sign, [h1, h2], [n1, n2])?;
    Some((seconds_since_epoch(date)? - ahead) * SECOND)
}

/// The seconds by which a zone is ahead of UTC.
fn offset(sign: u8, hours: [u8; 2], minutes: [u8; 2]) -> Option<i64> {
    let (hours, minutes) = (digits(&hours)?, digits(&minutes)?);
    let ahead = hours * 3600 + minutes * 60;
    (hours <= 23 && minutes <= 59).then_some(if sign == b'-' { -ahead } else { ahead })
}

/// `20/Nov/2026:16:49:00.123`, in UTC.
pub fn with_ms(text: &[u8]) -> Option<i64> {
    let (date, rest) = text.split_first_chunk()?;
    let [b'.', ref ms @ ..] = *rest else {
        return None;
    };
    let ms = (ms.len() == 3).then(|| digits(ms))??;
    Some(seconds_since_epoch(date)? * SECOND + ms * (SECOND / 1000))
}

fn seconds_since_epoch(date: &[u8; 20]) -> Option<i64> {
    let [d1, d2, b'/', m1, m2, m3, b'/', year @ .., b':', h1, h2, b':', n1, n2, b':', s1, s2] =
        *date
    else {
        return None;
    };
    let month = MONTHS.iter().position(|name| **name == [m1, m2, m3])?;
    let (year, day) = (digits(&year)?, digits(&[d1, d2])?);
    let (hour, minute, second) = (digits(&[h1, h2])?, digits(&[n1, n2])?, digits(&[s1, s2])?);
    seconds_of(
        year,
        i64::try_from(month).ok()? + 1,
        day,
        [hour, minute, second],
    )
}

/// `Fri Nov 20 16:49:00 2026`, in UTC, as C prints it. The day of the week may be any.
pub fn of_c(text: &[u8]) -> Option<i64> {
    let [weekday @ .., b' ', m1, m2, m3, b' ', d1, d2, b' ', h1, h2, b':', n1, n2, b':', s1, s2, b' ', y1, y2, y3, y4] =
        text
    else {
        return None;
    };
    let is_weekday = DAYS.iter().any(|name| name[..] == *weekday);
    let month = MONTHS.iter().position(|name| **name == [*m1, *m2, *m3])?;
    let day = if *d1 == b' ' {
        digits(&[*d2])
    } else {
        digits(&[*d1, *d2])
    };
    let time = [
        digits(&[*h1, *h2])?,
        digits(&[*n1, *n2])?,
        digits(&[*s1, *s2])?,
    ];
    let year = digits(&[*y1, *y2, *y3, *y4])?;
    let seconds = seconds_of(year, i64::try_from(month).ok()? + 1, day?, time)?;
    is_weekday.then_some(seconds * SECOND)
}

fn seconds_of(year: i64, month: i64, day: i64, [hour, minute, second]: [i64; 3]) -> Option<i64> {
    let is_day = (1..=days_in(year, month)).contains(&day);
    // Years beyond are no plausible log, and their nanoseconds do not fit.
    if !(1700..=2200).contains(&year) || !is_day || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 in the Gregorian calendar (H. Hinnant, chrono-compatible date algorithms, `days_from_civil`).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// `2026-11-20T16:49:00.123Z`, with an offset instead of `Z`, or without either: UTC.
pub fn iso(text: &[u8]) -> Option<i64> {
    let (moment, rest) = of_calendar(text, b"T")?;
    let (part, zone) = fraction(rest, b".", 1..=9)?;
    let ahead = match *zone {
        [] | [b'Z'] => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', n1, n2] => offset(sign, [h1, h2], [n1, n2])?,
        _ => return None,
    };
    Some((moment - ahead) * SECOND + part)
}

/// `2026-11-20T16:49:00.123Z`
pub fn iso_utc(text: &[u8]) -> Option<i64> {
    let (moment, rest) = of_calendar(text, b"T")?;
    let (part, zone) = fraction(rest, b".", 1..=9)?;
    (zone == b"Z").then_some(moment * SECOND + part)
}

/// `2026-11-20 16:49:00,123`, in UTC.
pub fn iso_local(text: &[u8]) -> Option<i64> {
    let (moment, rest) = of_calendar(text, b"T ")?;
    let (part, zone) = fraction(rest, b".,", 3..=6)?;
    (zone.is_empty() && !rest.is_empty()).then_some(moment * SECOND + part)
}

/// The seconds of `2026-11-20T16:49:00`, and what follows; between date and time is one of `separators`.
fn of_calendar<'t>(text: &'t [u8], separators: &[u8]) -> Option<(i64, &'t [u8])> {
    let (moment, rest) = text.split_first_chunk::<19>()?;
    let [year @ .., b'-', m1, m2, b'-', d1, d2, between, h1, h2, b':', n1, n2, b':', s1, s2] =
        *moment
    else {
        return None;
    };
    let (year, month, day) = (digits(&year)?, digits(&[m1, m2])?, digits(&[d1, d2])?);
    let time = [digits(&[h1, h2])?, digits(&[n1, n2])?, digits(&[s1, s2])?];
    let fits = separators.contains(&between) && (1..=12).contains(&month);
    fits.then(|| seconds_of(year, month, day, time))?
        .map(|at| (at, rest))
}

/// The ns of `.123`, if one of `points` comes, and what follows.
fn fraction<'t>(
    text: &'t [u8],
    points: &[u8],
    width: std::ops::RangeInclusive<usize>,
) -> Option<(i64, &'t [u8])> {
    if !text.first().is_some_and(|first| points.contains(first)) {
        return Some((0, text));
    }
    let end = text[1..].iter().position(|byte| !byte.is_ascii_digit());
    let (part, rest) = text[1..].split_at(end.unwrap_or(text.len() - 1));
    let scale = 10_i64.pow(9_u32.checked_sub(u32::try_from(part.len()).ok()?)?);
    width
        .contains(&part.len())
        .then_some((digits(part)? * scale, rest))
}
