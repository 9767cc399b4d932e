//! The bytes on disk and nothing else: every offset, magic number and checksum rule of segments, records and indexes is
//! fixed here and drawn in `docs/wal-format.md`. Little-endian throughout.

pub(crate) mod index;
pub(crate) mod record;
pub(crate) mod retained;
pub(crate) mod segment;

/// The format that this build writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Headers and bodies start on multiples of this, so that a body can be used as Arrow memory in place.
pub(crate) const ALIGN: usize = 64;

/// At most so many zeros stand behind the last block of a segment that a batch may still be written over.
pub(crate) const FILLER_BYTES_MAX: usize = 64 << 10;

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

/// Why bytes are not what their place demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadHeader {
    Newer(u32),
    Damaged,
}

/// Checks format number and checksum of `bytes`. A later format may place its checksum elsewhere, so a higher number
/// counts as one, unless all the rest is this format to the bit: then the number itself is damaged.
fn check_format<const N: usize>(bytes: &[u8; N], at_format: usize, at_crc: usize) -> Result<(), BadHeader> {
    let mut f = Fields(*bytes);
    let format = f.u32(at_format);
    f.put_u32(at_format, FORMAT_VERSION);
    let matches = f.u32(at_crc) == crc(0, &f.0[..at_crc]);
    match (format == FORMAT_VERSION, matches) {
        (true, true) => Ok(()),
        (false, false) if format > FORMAT_VERSION => Err(BadHeader::Newer(format)),
        _ => Err(BadHeader::Damaged),
    }
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
