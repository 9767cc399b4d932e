//! Read buffers that start on 64 bytes and are used again once nobody holds a slice of them.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use crate::format::ALIGN;

/// Memory of `len` bytes starting on [`ALIGN`]: a vector with slack, and where in it the aligned part starts.
struct Aligned {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    fn new(len: usize) -> Self {
        let memory = vec![0; len + ALIGN];
        let start = memory.as_ptr().addr().wrapping_neg() % ALIGN;
        Self { memory, start, len }
    }

    fn capacity(&self) -> usize {
        self.memory.len() - ALIGN
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

struct Shared(Arc<Aligned>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0.memory[self.0.start..self.0.start + self.0.len]
    }
}

/// Hands out filled buffers. Reuses the last one if all slices of it are gone: then its pages are mapped and its lines
/// lie in the cache.
#[derive(Default)]
pub(crate) struct ReadBuffer {
    last: Option<Arc<Aligned>>,
}

impl ReadBuffer {
    /// A buffer of `len` bytes, filled by `fill`.
    pub(crate) fn filled(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<Bytes> {
        let mut buffer = self.last.take().unwrap_or_else(|| Arc::new(Aligned::new(len)));
        let unused = match Arc::get_mut(&mut buffer) {
            Some(unused) if unused.capacity() >= len => unused,
            _ => {
                buffer = Arc::new(Aligned::new(len));
                match Arc::get_mut(&mut buffer) {
                    Some(unused) => unused,
                    None => return Err(io::ErrorKind::Other.into()), // cannot be: nobody else knows it yet
                }
            }
        };
        unused.len = len;
        fill(unused.bytes_mut())?;
        self.last = Some(Arc::clone(&buffer));
        Ok(Bytes::from_owner(Shared(buffer)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn aligned_and_reused_only_when_free() {
        let mut buffers = ReadBuffer::default();
        let mut get = |len, byte| {
            let bytes = buffers.filled(len, |b| {
                b.fill(byte);
                Ok(())
            });
            bytes.unwrap()
        };
        let a = get(1000, 1);
        let a_slice = a.slice(10..20);
        let a_at = a.as_ptr();
        assert_eq!(a_at.addr() % ALIGN, 0);
        drop(a);
        let b = get(500, 2);
        assert_ne!(b.as_ptr(), a_at, "a slice of the first still lives");
        assert_eq!(a_slice, [1; 10].as_slice());
        let b_at = b.as_ptr();
        drop(b);
        assert_eq!(get(400, 3).as_ptr(), b_at);
    }
}
