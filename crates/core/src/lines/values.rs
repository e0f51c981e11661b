//! Values of fields. None: the text has another form.

const SECOND: i64 = 1_000_000_000;
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];
/// Longer paths are cut by the caller.
const PATH_MAX: usize = 1000;

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
    let (hours, minutes) = (digits(&[h1, h2])?, digits(&[n1, n2])?);
    let ahead = hours * 3600 + minutes * 60;
    let ahead = if sign == b'-' { -ahead } else { ahead };
    (hours <= 23 && minutes <= 59).then_some((seconds_since_epoch(date)? - ahead) * SECOND)
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
    let month = i64::try_from(month).ok()? + 1;
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

fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |number, byte| {
        byte.is_ascii_digit()
            .then(|| number * 10 + i64::from(byte - b'0'))
    })
}

/// Times 10⁹: at most ten digits, and at most nine after the point. `Some(None)`: `-`.
pub fn decimal(text: &[u8]) -> Option<Option<i64>> {
    if text == b"-" {
        return Some(None);
    }
    let point = text.iter().position(|&byte| byte == b'.');
    let (whole, part) = match point {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[][..]),
    };
    if whole.is_empty()
        || whole.len() > 10
        || part.len() > 9
        || (point.is_some() && part.is_empty())
    {
        return None;
    }
    let scale = 10_i64.pow(9 - u32::try_from(part.len()).ok()?);
    let whole = digits(whole)?.checked_mul(SECOND)?;
    Some(Some(whole.checked_add(digits(part)? * scale)?))
}

/// `1.203`, as programs print seconds with three to six decimals.
pub fn seconds(text: &[u8]) -> Option<Option<i64>> {
    let point = text.iter().position(|&byte| byte == b'.')?;
    let decimals = text.len() - point - 1;
    if point > 9 || !(3..=6).contains(&decimals) {
        return None;
    }
    decimal(text)
}

/// `0.012929675` as the digits that name the double which is nearest to it, as programs print what they read.
pub fn double(text: &[u8]) -> Option<Option<i64>> {
    let padded = text.len() > 1 && text.starts_with(b"0") && !text.starts_with(b"0.");
    if padded
        || text.is_empty()
        || !text
            .iter()
            .all(|byte| byte.is_ascii_digit() || *byte == b'.')
    {
        return None;
    }
    if !text.contains(&b'.') {
        return decimal(text);
    }
    let is_number = !text.starts_with(b".") && !text.ends_with(b".");
    let number: f64 = std::str::from_utf8(text)
        .ok()
        .filter(|_| is_number)?
        .parse()
        .ok()?;
    decimal(format!("{number}").as_bytes())
}

/// At most 18 digits, without leading zeros. `Some(None)`: `-`.
pub fn integer(text: &[u8]) -> Option<Option<i64>> {
    if text == b"-" {
        return Some(None);
    }
    let (sign, number) = match text.strip_prefix(b"-") {
        Some(number) => (-1, number),
        None => (1, text),
    };
    let padded = number.len() > 1 && number.starts_with(b"0");
    if number.is_empty() || number.len() > 18 || padded {
        return None;
    }
    Some(Some(sign * digits(number)?))
}

/// Method and path of `GET /x?y#z HTTP/1.1`.
pub fn request(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = text.split(|&byte| byte == b' ');
    let (method, target) = (parts.next()?, parts.next()?);
    let is_method = (3..=20).contains(&method.len()) && method.iter().all(u8::is_ascii_uppercase);
    let is_target = !target.is_empty() && target.iter().all(u8::is_ascii_graphic);
    let end = target.iter().position(|byte| b"?#".contains(byte));
    let path = &target[..end.unwrap_or(target.len())];
    (is_method && is_target && path.len() <= PATH_MAX).then_some((method, path))
}
