//! Integers of the Data body: LEB128 where small numbers are usual, fixed little-endian where they are patched later.

use super::RecordError;

pub(super) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

/// Small for numbers near zero on either side.
pub(super) const fn zigzag(value: i64) -> u64 {
    (value.wrapping_shl(1) ^ (value >> 63)).cast_unsigned()
}

const fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

/// Reads from the front and never past the end.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn slice(&mut self, len: usize) -> Result<&'a [u8], RecordError> {
        let end = self.at.saturating_add(len);
        let found = self.bytes.get(self.at..end);
        let found = found.ok_or(RecordError::Truncated { at: self.at, have: self.bytes.len() })?;
        self.at = end;
        Ok(found)
    }

    pub(super) fn u8(&mut self) -> Result<u8, RecordError> {
        self.slice(1)?.first().copied().ok_or(RecordError::Truncated { at: self.at, have: self.bytes.len() })
    }

    pub(super) fn u32(&mut self) -> Result<u32, RecordError> {
        let bytes = self.slice(4)?;
        Ok(u32::from_le_bytes(bytes.try_into().unwrap_or_default()))
    }

    pub(super) fn i64(&mut self) -> Result<i64, RecordError> {
        let bytes = self.slice(8)?;
        Ok(i64::from_le_bytes(bytes.try_into().unwrap_or_default()))
    }

    pub(super) fn varint(&mut self) -> Result<u64, RecordError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(RecordError::Invalid("number of more than 64 bits"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(RecordError::Invalid("number of more than 64 bits"))
    }

    pub(super) fn signed(&mut self) -> Result<i64, RecordError> {
        self.varint().map(unzigzag)
    }

    /// A varint that must fit the type asked for.
    pub(super) fn number<T: TryFrom<u64>>(&mut self) -> Result<T, RecordError> {
        T::try_from(self.varint()?).map_err(|_| RecordError::Invalid("number out of range"))
    }

    /// A count of things that take at least one byte each: no count makes us reserve more than the body is long.
    pub(super) fn count(&mut self) -> Result<usize, RecordError> {
        let count: usize = self.number()?;
        if count > self.bytes.len().saturating_sub(self.at) {
            return Err(RecordError::Truncated { at: self.at, have: self.bytes.len() });
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put_varint(value, &mut out);
            let mut cursor = Cursor::new(&out);
            assert_eq!((cursor.varint().unwrap(), cursor.at), (value, out.len()));
        }
        for value in [0, -1, 1, i64::MIN, i64::MAX] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
        assert!(Cursor::new(&[0xff; 11]).varint().is_err());
        assert!(Cursor::new(&[0x80]).varint().is_err());
    }
}
