//! Values of fields. None: the text has another form.

const SECOND: i64 = 1_000_000_000;
/// Longer paths are cut by the caller.
const PATH_MAX: usize = 1000;

pub fn digits(text: &[u8]) -> Option<i64> {
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
    let space = text.iter().position(|byte| !byte.is_ascii_uppercase())?;
    if text[space] != b' ' || !(3..=20).contains(&space) {
        return None;
    }
    let (method, rest) = (&text[..space], &text[space + 1..]);
    let in_path = |&byte: &u8| byte.is_ascii_graphic() && byte != b'?' && byte != b'#';
    let path = &rest[..rest
        .iter()
        .position(|byte| !in_path(byte))
        .unwrap_or(rest.len())];
    let after = rest[path.len()..]
        .iter()
        .find(|byte| !byte.is_ascii_graphic());
    let is_target = !rest.is_empty() && rest[0] != b' ' && after.is_none_or(|&byte| byte == b' ');
    (is_target && path.len() <= PATH_MAX).then_some((method, path))
}

/// The number at the begin of a text as [`integer`] reads it, and its length; None: there may be one in another form.
#[inline]
pub fn leading_integer(text: &[u8]) -> Option<(i64, usize)> {
    let (number, len) = leading_digits(text, 18)?;
    (len == 1 || text[0] != b'0').then_some((number, len))
}

/// The same as [`decimal`] reads it; and how many decimals it has.
#[inline]
pub fn leading_decimal(text: &[u8]) -> Option<(i64, usize, usize)> {
    let (whole, len) = leading_digits(text, 10)?;
    let whole = whole.checked_mul(SECOND)?;
    if text.get(len) != Some(&b'.') {
        return Some((whole, len, 0));
    }
    let (part, decimals) = leading_digits(&text[len + 1..], 9)?;
    let number = whole.checked_add(part * SCALES[decimals])?;
    Some((number, len + 1 + decimals, decimals))
}

/// 10⁹ divided by a power of ten.
const SCALES: [i64; 10] = [
    1_000_000_000,
    100_000_000,
    10_000_000,
    1_000_000,
    100_000,
    10_000,
    1_000,
    100,
    10,
    1,
];

/// One to `most` digits.
#[inline]
fn leading_digits(text: &[u8], most: usize) -> Option<(i64, usize)> {
    let (mut number, mut len) = (0, 0);
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        if len == most {
            return None;
        }
        number = number * 10 + i64::from(digit);
        len += 1;
    }
    (len > 0).then_some((number, len))
}

/// The path of `/x?y#z`; None if the text is long or has a control character.
pub fn target(text: &[u8]) -> Option<&[u8]> {
    let end = text.iter().position(|byte| b"?#".contains(byte));
    let fits = text.len() <= PATH_MAX && text.iter().all(|&byte| byte >= b' ');
    fits.then(|| &text[..end.unwrap_or(text.len())])
}
