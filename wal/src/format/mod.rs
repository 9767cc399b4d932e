//! The bytes on disk and nothing else: every offset, magic number and checksum rule of segments, records and indexes is
//! fixed here and drawn in `docs/wal-format.md`. Little-endian throughout.

pub(crate) mod index;
pub(crate) mod record;
pub(crate) mod segment;

/// The format that this build writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Headers and bodies start on multiples of this, so that a body can be used as Arrow memory in place.
pub(crate) const ALIGN: usize = 64;

/// The largest body. A length above it is damage.
pub const BODY_BYTES_MAX: usize = 1 << 30;

/// Size on disk of a block with a body of `len` bytes: header, body, padding up to the next header.
pub(crate) const fn block_bytes(body_len: usize) -> usize {
    record::HEADER_BYTES + body_len.next_multiple_of(ALIGN)
}

/// CRC-32 (IEEE) of `bytes`, started from `seed` instead of 0.
pub(crate) fn crc(seed: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(bytes);
    hasher.finalize()
}

/// Reads and writes numbers at fixed places of a fixed-size block.
pub(crate) struct Fields<const N: usize>(pub(crate) [u8; N]);

macro_rules! number {
    ($($get:ident $put:ident $type:ty),* $(,)?) => {
        impl<const N: usize> Fields<N> {
            $(
                pub(crate) fn $get(&self, at: usize) -> $type {
                    let mut bytes = [0; size_of::<$type>()];
                    bytes.copy_from_slice(&self.0[at..at + size_of::<$type>()]);
                    <$type>::from_le_bytes(bytes)
                }

                pub(crate) fn $put(&mut self, at: usize, value: $type) {
                    self.0[at..at + size_of::<$type>()].copy_from_slice(&value.to_le_bytes());
                }
            )*
        }
    };
}

number!(u8 put_u8 u8, u32 put_u32 u32, u64 put_u64 u64, i64 put_i64 i64);
