//! The state as a file: what a restart begins with. Written whole and swapped in, so that the old or the new one is
//! there after a crash.
//!
//! ```text
//! 0  magic "TMKMNODE"   8  format u32 LE   12  CRC-32 of format and body u32 LE   16  body (postcard) to the end
//! ```

use model::{Code, Error, Result};
use serde::{Deserialize, Serialize};

use super::MnodeState;

const MAGIC: &[u8; 8] = b"TMKMNODE";
const FORMAT: u32 = 1;
const HEADER_BYTES: usize = 16;

/// The state together with where the log goes on from it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Snapshot<C> {
    pub(crate) checkpoint: C,
    pub(crate) state: MnodeState,
}

impl<C: Serialize + for<'a> Deserialize<'a>> Snapshot<C> {
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let body = postcard::to_stdvec(self)
            .map_err(|e| Error::internal("snapshot is not encodable").caused_by(e))?;
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&crc(FORMAT, &body).to_le_bytes());
        bytes.extend_from_slice(&body);
        Ok(bytes)
    }

    /// # Errors
    /// 0x6F01 for anything but what was written, 0x6F02 for a later format.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = |what: &str| Error::with(Code::Damaged, format_args!("metadata snapshot: {what}"));
        let (header, body) = bytes.split_at_checked(HEADER_BYTES).ok_or_else(|| damaged("too short"))?;
        if !header.starts_with(MAGIC) {
            return Err(damaged("not a snapshot"));
        }
        let number = |at: usize| {
            let bytes = header.get(at..at + 4).and_then(|b| b.try_into().ok()).unwrap_or_default();
            u32::from_le_bytes(bytes)
        };
        if number(8) > FORMAT {
            return Err(Error::with(Code::NewerFormat, "metadata snapshot"));
        }
        if crc(number(8), body) != number(12) {
            return Err(damaged("checksum fails"));
        }
        postcard::from_bytes(body).map_err(|e| damaged("does not decode").caused_by(e))
    }
}

fn crc(format: u32, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&format.to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_sees_damage() {
        let snapshot = Snapshot { checkpoint: 7_u64, state: MnodeState::default() };
        let bytes = snapshot.encode().unwrap();
        let read = Snapshot::<u64>::decode(&bytes).unwrap();
        assert_eq!((read.checkpoint, read.state), (7, MnodeState::default()));
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x40;
            assert!(Snapshot::<u64>::decode(&bad).is_err(), "byte {at}");
        }
        for len in 0..bytes.len() {
            assert!(Snapshot::<u64>::decode(&bytes[..len]).is_err(), "cut at {len}");
        }
    }
}
