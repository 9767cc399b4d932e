//! VARBINARY and GEOMETRY: hexadecimal or plain text, and well-known text.

use std::borrow::Cow;
use std::str::FromStr as _;

use model::DataType;

use super::{Misfit, Raw};

/// The bytes of a literal; `None` is NULL.
pub(super) fn parse(data_type: DataType, raw: Raw<'_>) -> Result<Option<Cow<'_, [u8]>>, Misfit> {
    let text = match raw {
        Raw::Quoted(text) | Raw::Hex(text) => text,
        raw if raw.is_null() => return Ok(None),
        Raw::Bare(_) | Raw::Shifted { .. } => return Err(Misfit::Symbol),
    };
    let bytes = match data_type {
        // NULL in quotes counts for types that are no strings.
        DataType::Geometry(_) if text.eq_ignore_ascii_case("null") => return Ok(None),
        // Well-known binary, as events have it.
        DataType::Geometry(_) if matches!(raw, Raw::Hex(_)) => {
            let bytes = text.strip_prefix('x').and_then(hex).ok_or(Misfit::Hex)?;
            wkb::reader::read_wkb(&bytes).map_err(|_| Misfit::Geometry)?;
            Cow::Owned(bytes)
        }
        DataType::Geometry(_) => Cow::Owned(well_known_binary(text)?),
        _ => match raw {
            Raw::Hex(text) => Cow::Owned(text.strip_prefix('x').and_then(hex).ok_or(Misfit::Hex)?),
            _ => Cow::Borrowed(text.as_bytes()),
        },
    };
    if data_type.fits_bytes(&bytes) { Ok(Some(bytes)) } else { Err(Misfit::TooLong) }
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok().filter(|_| pair.iter().all(u8::is_ascii_hexdigit))?;
        u8::from_str_radix(text, 16).ok()
    };
    if digits.len() % 2 == 1 {
        return None;
    }
    digits.as_bytes().chunks(2).map(pair).collect()
}

/// Well-known text as little-endian well-known binary.
fn well_known_binary(text: &str) -> Result<Vec<u8>, Misfit> {
    let geometry = wkt::Wkt::<f64>::from_str(text).map_err(|_| Misfit::Geometry)?;
    let mut bytes = Vec::new();
    wkb::writer::write_geometry(&mut bytes, &geometry, &wkb::writer::WriteOptions::default())
        .map_err(|_| Misfit::Geometry)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varbinary(raw: Raw<'_>) -> Result<Option<Vec<u8>>, Misfit> {
        Ok(parse(DataType::Varbinary(4), raw)?.map(Cow::into_owned))
    }

    #[test]
    fn a_geometry_is_also_its_well_known_binary() {
        let geometry =
            |raw: Raw<'_>| Ok::<_, Misfit>(parse(DataType::Geometry(64), raw)?.map(Cow::into_owned));
        let point = geometry(Raw::Quoted("POINT(1 2)")).unwrap().unwrap();
        let digits: String = point.iter().map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(geometry(Raw::Hex(&format!("x{digits}"))), Ok(Some(point)));
        assert_eq!(geometry(Raw::Hex("x0102")), Err(Misfit::Geometry));
        assert_eq!(geometry(Raw::Hex("x0")), Err(Misfit::Hex));
    }

    #[test]
    fn hexadecimal_and_plain_text() {
        assert_eq!(varbinary(Raw::Hex("x00FF")), Ok(Some(vec![0, 0xFF])));
        assert_eq!(varbinary(Raw::Hex("x")), Ok(Some(vec![])));
        assert_eq!(
            varbinary(Raw::Quoted("x41")),
            Ok(Some(b"x41".to_vec())),
            "without the backslash it is text"
        );
        assert_eq!(varbinary(Raw::Quoted("")), Ok(Some(vec![])));
        assert_eq!(varbinary(Raw::Quoted("null")), Ok(Some(b"null".to_vec())));
        assert_eq!(varbinary(Raw::Hex("x0")), Err(Misfit::Hex));
        assert_eq!(varbinary(Raw::Hex("x+1")), Err(Misfit::Hex));
        assert_eq!(varbinary(Raw::Hex("x0102030405")), Err(Misfit::TooLong));
        assert_eq!(varbinary(Raw::Bare("7")), Err(Misfit::Symbol));
        assert_eq!(varbinary(Raw::Bare("NULL")), Ok(None));
    }

    #[test]
    fn geometries_have_the_lengths_of_the_manual() {
        let geometry =
            |text| parse(DataType::Geometry(64), Raw::Quoted(text)).map(|b| b.map(Cow::into_owned));
        let point = geometry("POINT(1 2)").unwrap().unwrap();
        assert_eq!(point[..9], [1, 1, 0, 0, 0, 0, 0, 0, 0], "little-endian, a point, 1.0 begins");
        assert_eq!(point.len(), 21);
        assert_eq!(geometry("LINESTRING(0 0, 1 1, 2 3.5)").unwrap().unwrap().len(), 9 + 3 * 16);
        assert_eq!(geometry("POLYGON((0 0, 1 0, 0 0))").unwrap().unwrap().len(), 13 + 3 * 16);
        assert_eq!(geometry("POINT(1)"), Err(Misfit::Geometry));
        assert_eq!(geometry(""), Err(Misfit::Geometry));
        assert_eq!(geometry("LINESTRING(0 0, 1 1, 2 2, 3 3)"), Err(Misfit::TooLong));
    }
}
