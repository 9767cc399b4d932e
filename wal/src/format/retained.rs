//! The `retained` file: where the log begins since retention deleted what was before. Without it, a first segment that
//! continues another one is a segment whose predecessor vanished.

use super::{BadHeader, FORMAT_VERSION, Fields, check_format, crc};
use crate::Version;

/// Name of the file in the log's directory.
pub(crate) const FILE_NAME: &str = "retained";
pub(crate) const BYTES: usize = 32;
const MAGIC: [u8; 8] = *b"TIDERET\n";

const AT_FORMAT: usize = 8;
const AT_FIRST: usize = 16;
const AT_CRC: usize = 28;
const _: () = assert!(AT_CRC + 4 == BYTES);

/// Every segment that begins below `first` may be gone.
pub(crate) fn encode(first: Version) -> [u8; BYTES] {
    let mut out = Fields([0; BYTES]);
    out.0[..MAGIC.len()].copy_from_slice(&MAGIC);
    out.put_u32(AT_FORMAT, FORMAT_VERSION);
    out.put_u64(AT_FIRST, first.0);
    let sum = crc(0, &out.0[..AT_CRC]);
    out.put_u32(AT_CRC, sum);
    out.0
}

/// The version given to [`encode`].
pub(crate) fn decode(bytes: &[u8]) -> Result<Version, BadHeader> {
    let bytes = <[u8; BYTES]>::try_from(bytes).map_err(|_| BadHeader::Damaged)?;
    if bytes[..MAGIC.len()] != MAGIC {
        return Err(BadHeader::Damaged);
    }
    check_format(&bytes, AT_FORMAT, AT_CRC)?;
    Ok(Version(Fields(bytes).u64(AT_FIRST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_every_flipped_bit_is_seen() {
        let bytes = encode(Version(500));
        assert_eq!(decode(&bytes), Ok(Version(500)));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bad).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes[..len]), Err(BadHeader::Damaged));
        }
    }

    #[test]
    fn newer_format_is_named() {
        let mut bytes = encode(Version(1));
        bytes[AT_FORMAT] = 7;
        assert_eq!(decode(&bytes), Err(BadHeader::Damaged), "all else is as format 1 has it");
        bytes[AT_CRC] ^= 1;
        assert_eq!(decode(&bytes), Err(BadHeader::Newer(7)));
    }
}
