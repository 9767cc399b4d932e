//! The columnar frame: Arrow buffers under a small descriptor of our own.
//!
//! It carries rows in gRPC writes, in the log's Data records and in messages to consumers. It holds no names: whoever
//! reads it knows the columns in order. A one-row frame of four fixed-width columns takes 44 bytes, where an Arrow IPC
//! message takes several hundred. Layout in `docs/frame.md`; all integers little-endian:
//!
//! ```text
//! u32 rows | u16 columns | u16 zero
//! per column: u8 physical type | u8 flags (bit 0: has a validity bitmap) | Utf8, Binary: u16 zero, u32 data length
//! then per column: [validity bitmap] [values, or 32-bit offsets and data]
//! ```
//!
//! A buffer starts on 8 bytes, on 64 where it has 4 KiB or more, counted from the start of the byte string that the
//! frame lies in. Bits of a bitmap past the last row are zero.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, TimeUnit};
use bytes::Bytes;

/// Why bytes are not a frame, or arrays cannot become one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The bytes end inside the frame.
    #[error("frame is cut short: needed={needed} have={have}")]
    Truncated {
        /// First byte past what the frame needs.
        needed: usize,
        /// Length of the byte string.
        have: usize,
    },
    /// A type number that this version does not know.
    #[error("unknown physical type in frame: type={0}")]
    UnknownType(u8),
    /// A type that frames do not carry.
    #[error("type cannot travel in a frame: type={0}")]
    UnsupportedType(DataType),
    /// Columns of different length, or more rows or columns than the descriptor can say.
    #[error("columns do not fit one frame: {0}")]
    Shape(&'static str),
    /// Offsets that do not rise, text that is not UTF-8, and the like.
    #[error("frame holds invalid values: {0}")]
    Invalid(#[from] arrow_schema::ArrowError),
}

/// Arrays of one frame.
#[derive(Clone, Debug)]
pub struct Frame {
    /// In order; all of one length.
    pub columns: Vec<ArrayRef>,
    /// First byte behind the frame.
    pub end: usize,
}

/// Some arrays of one frame.
#[derive(Clone, Debug)]
pub struct SomeColumns {
    /// How long each column is, read or not.
    pub rows: usize,
    /// In order; `None` for those that were passed over.
    pub columns: Vec<Option<ArrayRef>>,
    /// First byte behind the frame.
    pub end: usize,
}

const HEADER_BYTES: usize = 8;
const HAS_VALIDITY: u8 = 1;
const WIDE_BUFFER_BYTES: usize = 4_096;

fn align(position: usize, buffer_bytes: usize) -> usize {
    position.next_multiple_of(if buffer_bytes >= WIDE_BUFFER_BYTES { 64 } else { 8 })
}

/// The number that stands for a type. Never reused.
fn type_number(data_type: &DataType) -> Option<u8> {
    Some(match data_type {
        DataType::Boolean => 1,
        DataType::Int8 => 2,
        DataType::Int16 => 3,
        DataType::Int32 => 4,
        DataType::Int64 => 5,
        DataType::Float32 => 6,
        DataType::Float64 => 7,
        DataType::Utf8 => 8,
        DataType::UInt8 => 9,
        DataType::UInt16 => 10,
        DataType::UInt32 => 11,
        DataType::UInt64 => 12,
        DataType::Timestamp(TimeUnit::Millisecond, None) => 13,
        DataType::Timestamp(TimeUnit::Microsecond, None) => 14,
        DataType::Timestamp(TimeUnit::Nanosecond, None) => 15,
        DataType::Binary => 16,
        _ => return None,
    })
}

/// Calls a macro with the Arrow type of every fixed-width column type, keyed by data type.
macro_rules! with_primitive {
    ($data_type:expr, $otherwise:expr, |$t:ident| $body:expr) => {
        match $data_type {
            DataType::Int8 => {
                type $t = Int8Type;
                $body
            }
            DataType::Int16 => {
                type $t = Int16Type;
                $body
            }
            DataType::Int32 => {
                type $t = Int32Type;
                $body
            }
            DataType::Int64 => {
                type $t = Int64Type;
                $body
            }
            DataType::Float32 => {
                type $t = Float32Type;
                $body
            }
            DataType::Float64 => {
                type $t = Float64Type;
                $body
            }
            DataType::UInt8 => {
                type $t = UInt8Type;
                $body
            }
            DataType::UInt16 => {
                type $t = UInt16Type;
                $body
            }
            DataType::UInt32 => {
                type $t = UInt32Type;
                $body
            }
            DataType::UInt64 => {
                type $t = UInt64Type;
                $body
            }
            DataType::Timestamp(TimeUnit::Millisecond, None) => {
                type $t = TimestampMillisecondType;
                $body
            }
            DataType::Timestamp(TimeUnit::Microsecond, None) => {
                type $t = TimestampMicrosecondType;
                $body
            }
            DataType::Timestamp(TimeUnit::Nanosecond, None) => {
                type $t = TimestampNanosecondType;
                $body
            }
            _ => $otherwise,
        }
    };
}

/// The type behind a number.
fn data_type_of(number: u8) -> Option<DataType> {
    const TYPES: [DataType; 16] = [
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Float32,
        DataType::Float64,
        DataType::Utf8,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Binary,
    ];
    TYPES.get(usize::from(number).checked_sub(1)?).cloned()
}

/// Appends a frame of `columns` to `out`.
///
/// # Errors
/// When the columns differ in length, there are none or too many, or one has a type that frames do not carry. `out` is
/// then as it was.
pub fn encode(columns: &[ArrayRef], out: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = out.len();
    let result = encode_descriptor(columns, out)
        .and_then(|()| columns.iter().try_for_each(|column| encode_column(column, out)));
    if result.is_err() {
        out.truncate(start);
    }
    result
}

fn encode_descriptor(columns: &[ArrayRef], out: &mut Vec<u8>) -> Result<(), FrameError> {
    let rows = columns.first().ok_or(FrameError::Shape("no columns"))?.len();
    if columns.iter().any(|column| column.len() != rows) {
        return Err(FrameError::Shape("columns of different length"));
    }
    let rows = u32::try_from(rows).map_err(|_| FrameError::Shape("too many rows"))?;
    let count = u16::try_from(columns.len()).map_err(|_| FrameError::Shape("too many columns"))?;
    out.resize(out.len().next_multiple_of(8), 0);
    out.extend_from_slice(&rows.to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    for column in columns {
        let number = type_number(column.data_type())
            .ok_or_else(|| FrameError::UnsupportedType(column.data_type().clone()))?;
        let flags = if column.null_count() > 0 { HAS_VALIDITY } else { 0 };
        out.extend_from_slice(&[number, flags]);
        if let Some((offsets, _)) = variable(column) {
            let bytes = offsets.last().copied().unwrap_or(0) - offsets.first().copied().unwrap_or(0);
            out.extend_from_slice(&[0; 2]);
            out.extend_from_slice(&bytes.to_le_bytes());
        }
    }
    Ok(())
}

/// Offsets and data of a column whose values differ in length.
fn variable(column: &ArrayRef) -> Option<(&[i32], &[u8])> {
    let text = column.as_string_opt::<i32>().map(|text| (text.value_offsets(), text.value_data()));
    text.or_else(|| column.as_binary_opt::<i32>().map(|bytes| (bytes.value_offsets(), bytes.value_data())))
}

fn put(bytes: &[u8], out: &mut Vec<u8>) {
    out.resize(align(out.len(), bytes.len()), 0);
    out.extend_from_slice(bytes);
}

fn put_bits(bits: &BooleanBuffer, out: &mut Vec<u8>) {
    put(bits.sliced().as_slice().get(..bits.len().div_ceil(8)).unwrap_or_default(), out);
    let used = bits.len() % 8;
    if used > 0
        && let Some(last) = out.last_mut()
    {
        *last &= (1 << used) - 1;
    }
}

fn encode_column(column: &ArrayRef, out: &mut Vec<u8>) -> Result<(), FrameError> {
    if let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) {
        put_bits(nulls.inner(), out);
    }
    if let Some(bools) = column.as_boolean_opt() {
        put_bits(bools.values(), out);
        return Ok(());
    }
    if let Some((offsets, data)) = variable(column) {
        let (first, last) = (offsets.first().copied().unwrap_or(0), offsets.last().copied().unwrap_or(0));
        out.resize(align(out.len(), size_of_val(offsets)), 0);
        out.extend(offsets.iter().flat_map(|offset| (offset - first).to_le_bytes()));
        let range = usize::try_from(first).unwrap_or(0)..usize::try_from(last).unwrap_or(0);
        put(data.get(range).unwrap_or_default(), out);
        return Ok(());
    }
    with_primitive!(column.data_type(), Err(FrameError::UnsupportedType(column.data_type().clone())), |T| {
        put(column.as_primitive::<T>().values().inner().as_slice(), out);
        Ok(())
    })
}

/// Reads the frame that starts at or, for alignment, just behind `position` of `bytes`.
///
/// Buffers are shared with `bytes`, copied only where they lie unaligned in memory. Everything is checked: lengths
/// before use, offsets, UTF-8.
///
/// # Errors
/// When the bytes are not a whole, valid frame.
pub fn decode(bytes: &Bytes, position: usize) -> Result<Frame, FrameError> {
    let SomeColumns { columns, end, .. } = decode_some(bytes, position, |_| true)?;
    Ok(Frame { columns: columns.into_iter().flatten().collect(), end })
}

/// Reads those columns of a frame that are `wanted` by their place in it. Of the others nothing is read but where they end,
/// so that what is in them goes unchecked.
///
/// # Errors
/// As [`decode`], as far as it is read.
pub fn decode_some(
    bytes: &Bytes,
    position: usize,
    wanted: impl Fn(usize) -> bool,
) -> Result<SomeColumns, FrameError> {
    let mut reader = Reader { bytes, position: position.next_multiple_of(8) };
    let rows = usize::try_from(reader.u32()?).map_err(|_| FrameError::Shape("too many rows"))?;
    let count = reader.u16()?;
    reader.u16()?;
    let mut descriptors = Vec::with_capacity(usize::from(count).min(HEADER_BYTES * 512));
    for _ in 0..count {
        let [number, flags] = reader.u16()?.to_le_bytes();
        let data_type = data_type_of(number).ok_or(FrameError::UnknownType(number))?;
        let data_len = if matches!(data_type, DataType::Utf8 | DataType::Binary) {
            reader.u16()?;
            usize::try_from(reader.u32()?).map_err(|_| FrameError::Shape("too much text"))?
        } else {
            0
        };
        descriptors.push((data_type, flags & HAS_VALIDITY != 0, data_len));
    }
    let columns = descriptors
        .into_iter()
        .enumerate()
        .map(|(at, (data_type, has_validity, data_len))| match wanted(at) {
            true => reader.column(data_type, has_validity, rows, data_len).map(Some),
            false => reader.pass(&data_type, has_validity, rows, data_len).map(|()| None),
        })
        .collect::<Result<_, _>>()?;
    Ok(SomeColumns { rows, columns, end: reader.position })
}

struct Reader<'a> {
    bytes: &'a Bytes,
    position: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let needed = self.position.saturating_add(N);
        let found = self.bytes.get(self.position..needed).and_then(|slice| slice.try_into().ok());
        let found = found.ok_or(FrameError::Truncated { needed, have: self.bytes.len() })?;
        self.position = needed;
        Ok(found)
    }

    fn u16(&mut self) -> Result<u16, FrameError> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, FrameError> {
        self.take().map(u32::from_le_bytes)
    }

    /// The next buffer of `len` bytes, aligned in memory for values of `alignment` bytes.
    fn buffer(&mut self, len: usize, alignment: usize) -> Result<Buffer, FrameError> {
        let start = align(self.position, len);
        let end = start.saturating_add(len);
        if end > self.bytes.len() {
            return Err(FrameError::Truncated { needed: end, have: self.bytes.len() });
        }
        self.position = end;
        let buffer = Buffer::from(self.bytes.slice(start..end));
        // Arrow asserts alignment; bytes from the network start anywhere.
        if buffer.as_ptr().align_offset(alignment) == 0 {
            Ok(buffer)
        } else {
            Ok(Buffer::from(buffer.as_slice()))
        }
    }

    fn bits(&mut self, rows: usize) -> Result<BooleanBuffer, FrameError> {
        Ok(BooleanBuffer::new(self.buffer(rows.div_ceil(8), 1)?, 0, rows))
    }

    fn column(
        &mut self,
        data_type: DataType,
        has_validity: bool,
        rows: usize,
        data_len: usize,
    ) -> Result<ArrayRef, FrameError> {
        let nulls = if has_validity { Some(NullBuffer::new(self.bits(rows)?)) } else { None };
        match data_type {
            DataType::Boolean => Ok(Arc::new(BooleanArray::new(self.bits(rows)?, nulls))),
            DataType::Utf8 | DataType::Binary => {
                let offset_bytes = rows.saturating_add(1).saturating_mul(size_of::<i32>());
                let offsets = self.buffer(offset_bytes, align_of::<i32>())?;
                let data = self.buffer(data_len, 1)?;
                let builder = ArrayData::builder(data_type).len(rows).add_buffer(offsets).add_buffer(data);
                Ok(make_array(builder.nulls(nulls).build()?))
            }
            other => with_primitive!(&other, Err(FrameError::UnsupportedType(other.clone())), |T| {
                self.primitive::<T>(rows, nulls)
            }),
        }
    }

    /// Goes behind a column without looking at its values.
    fn pass(
        &mut self,
        data_type: &DataType,
        has_validity: bool,
        rows: usize,
        data_len: usize,
    ) -> Result<(), FrameError> {
        let bits = rows.div_ceil(8);
        if has_validity {
            self.buffer(bits, 1)?;
        }
        let len = match data_type {
            DataType::Boolean => bits,
            DataType::Utf8 | DataType::Binary => {
                self.buffer(rows.saturating_add(1).saturating_mul(size_of::<i32>()), 1)?;
                data_len
            }
            other => with_primitive!(other, return Err(FrameError::UnsupportedType(other.clone())), |T| {
                rows.saturating_mul(size_of::<<T as ArrowPrimitiveType>::Native>())
            }),
        };
        self.buffer(len, 1).map(drop)
    }

    fn primitive<T: ArrowPrimitiveType>(
        &mut self,
        rows: usize,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, FrameError> {
        let width = size_of::<T::Native>();
        let buffer = self.buffer(rows.saturating_mul(width), width)?;
        let values = ScalarBuffer::<T::Native>::new(buffer, 0, rows);
        Ok(Arc::new(PrimitiveArray::<T>::try_new(values, nulls)?))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        BinaryArray, Float32Array, Int32Array, Int64Array, StringArray, TimestampMillisecondArray,
    };
    use proptest::prelude::*;

    use super::*;

    fn round_trip(columns: &[ArrayRef]) -> Frame {
        let mut bytes = Vec::new();
        encode(columns, &mut bytes).unwrap();
        let length = bytes.len();
        let frame = decode(&Bytes::from(bytes), 0).unwrap();
        assert_eq!(frame.end, length);
        assert_eq!(frame.columns.len(), columns.len());
        for (read, written) in frame.columns.iter().zip(columns) {
            assert_eq!(read.as_ref(), written.as_ref());
        }
        frame
    }

    fn one_row() -> Vec<ArrayRef> {
        vec![
            Arc::new(TimestampMillisecondArray::from(vec![1_700_000_000_000])),
            Arc::new(Float32Array::from(vec![10.5])),
            Arc::new(Int32Array::from(vec![221])),
            Arc::new(Float32Array::from(vec![0.25])),
        ]
    }

    #[test]
    fn a_lone_row_is_small() {
        let mut bytes = Vec::new();
        encode(&one_row(), &mut bytes).unwrap();
        assert_eq!(bytes.len(), 44);
        round_trip(&one_row());
    }

    /// Every choice of columns of every type gives those columns, and ends where the frame does.
    #[test]
    fn some_columns_are_read_and_the_others_passed_over() {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(TimestampMillisecondArray::from(vec![1, 2, 3])),
            Arc::new(StringArray::from(vec![Some("a"), None, Some("größe")])),
            Arc::new(BooleanArray::from(vec![None, Some(true), Some(false)])),
            Arc::new(BinaryArray::from(vec![&b"\xff"[..], b"", b"xyz"])),
            Arc::new(Float32Array::from(vec![Some(0.5), None, None])),
            Arc::new(Int64Array::from(vec![4, 5, 6])),
        ];
        let mut bytes = Vec::new();
        encode(&columns, &mut bytes).unwrap();
        let (end, bytes) = (bytes.len(), Bytes::from(bytes));
        for choice in 0_u32..1 << columns.len() {
            let is_wanted = |at: usize| choice & (1 << at) != 0;
            let some = decode_some(&bytes, 0, is_wanted).unwrap();
            let wanted: Vec<_> =
                columns.iter().enumerate().map(|(at, column)| is_wanted(at).then_some(column)).collect();
            assert_eq!(some.columns.iter().map(Option::as_ref).collect::<Vec<_>>(), wanted, "{choice:b}");
            assert_eq!((some.rows, some.end), (3, end), "{choice:b}");
        }
    }

    /// What is passed over is not decoded: text that is none does no harm there. Where it would end is checked all the same.
    #[test]
    fn what_is_passed_over_is_not_decoded() {
        let columns: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from(vec![1])), Arc::new(StringArray::from(vec!["damaged"]))];
        let mut bytes = Vec::new();
        encode(&columns, &mut bytes).unwrap();
        let at = bytes.windows(7).position(|window| window == b"damaged").unwrap();
        bytes[at] = 0xFF;
        let bytes = Bytes::from(bytes);
        assert!(decode(&bytes, 0).is_err());
        let some = decode_some(&bytes, 0, |at| at == 0).unwrap();
        assert_eq!((some.columns[0].as_ref(), some.columns[1].as_ref()), (Some(&columns[0]), None));
        let cut = bytes.slice(..at + 3);
        assert!(matches!(decode_some(&cut, 0, |_| false), Err(FrameError::Truncated { .. })));
    }

    #[test]
    fn slices_with_nulls_start_anew() {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(vec![Some("a"), None, Some("größe"), Some(""), Some("end")])),
            Arc::new(BooleanArray::from(vec![None, Some(true), Some(false), None, Some(true)])),
            Arc::new(BinaryArray::from(vec![Some(&b"\xff"[..]), None, Some(b""), Some(b"\0\0"), Some(b"x")])),
            Arc::new(Int64Array::from(vec![Some(1), Some(2), None, Some(4), Some(i64::MIN)])),
        ];
        round_trip(&columns);
        let sliced: Vec<_> = columns.iter().map(|c| c.slice(1, 3)).collect();
        round_trip(&sliced);
        let empty: Vec<_> = columns.iter().map(|c| c.slice(2, 0)).collect();
        round_trip(&empty);
    }

    #[test]
    fn wide_buffers_lie_on_cache_lines_and_are_not_copied() {
        let mut bytes = vec![0; 64];
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..4_096));
        encode(&[values], &mut bytes).unwrap();
        let bytes = Bytes::from(bytes);
        let frame = decode(&bytes, 64).unwrap();
        let array = frame.columns[0].as_primitive::<Int64Type>();
        let offset = array.values().as_ptr() as usize - bytes.as_ptr() as usize;
        assert!(offset < bytes.len() && offset.is_multiple_of(64), "copied or unaligned: {offset}");
    }

    #[test]
    fn unaligned_memory_is_copied() {
        let mut bytes = vec![0; 1];
        let mut frame = Vec::new();
        encode(&one_row(), &mut frame).unwrap();
        bytes.extend_from_slice(&frame);
        for shift in 0..8 {
            let mut shifted = vec![0; shift];
            shifted.extend_from_slice(&frame);
            let read = decode(&Bytes::from(shifted).slice(shift..), 0).unwrap();
            assert_eq!(read.columns[0].as_ref(), one_row()[0].as_ref());
        }
    }

    #[test]
    fn says_what_it_cannot_carry() {
        let odd: ArrayRef = Arc::new(arrow_array::Date32Array::from(vec![1]));
        let mut out = vec![7];
        assert!(matches!(encode(&[odd], &mut out), Err(FrameError::UnsupportedType(DataType::Date32))));
        assert_eq!(out, [7], "a refused frame leaves nothing behind");
        assert!(matches!(encode(&[], &mut out), Err(FrameError::Shape(_))));
    }

    proptest! {
        #[test]
        fn damaged_frames_never_panic(
            texts in prop::collection::vec(prop::option::of("\\PC{0,12}"), 1..20),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let numbers = Int64Array::from_iter(texts.iter().map(|t| t.as_ref().map(|t| t.len() as i64)));
            let columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from(texts)), Arc::new(numbers)];
            round_trip(&columns);
            let mut bytes = Vec::new();
            encode(&columns, &mut bytes).unwrap();
            for (index, byte) in flips {
                let at = index.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(cut.index(bytes.len() + 1));
            let _ = decode(&Bytes::from(bytes), 0);
        }
    }
}
