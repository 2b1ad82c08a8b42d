//! The few rules of the protobuf wire format that identities need.
//!
//! Must never: panic, allocate, or read past its input. A message that breaks
//! the format yields one [`Malformed`] and ends.

/// The bytes are not a protobuf message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// One field of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    pub number: u32,
    pub value: Value<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Fixed64,
    Bytes(&'a [u8]),
    Fixed32,
}

impl<'a> Field<'a> {
    /// The content of a string, bytes or message field; empty for other kinds.
    pub fn bytes(&self) -> Result<&'a [u8], Malformed> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(Malformed),
        }
    }

    pub fn text(&self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }

    pub fn varint(&self) -> Result<u64, Malformed> {
        match self.value {
            Value::Varint(number) => Ok(number),
            _ => Err(Malformed),
        }
    }
}

/// The fields of a message, in order.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

pub(crate) fn fields(message: &[u8]) -> Fields<'_> {
    Fields { rest: message }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn read(&mut self) -> Result<Field<'a>, Malformed> {
        let tag = self.read_varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| Malformed)?;
        if number == 0 {
            return Err(Malformed);
        }
        let value = match tag & 7 {
            0 => Value::Varint(self.read_varint()?),
            1 => self.take(8).map(|_| Value::Fixed64)?,
            2 => {
                let length = self.read_varint()?;
                Value::Bytes(self.take(usize::try_from(length).map_err(|_| Malformed)?)?)
            }
            5 => self.take(4).map(|_| Value::Fixed32)?,
            // 3 and 4 are groups, which Kubernetes does not use; 6 and 7 do not exist.
            _ => return Err(Malformed),
        };
        Ok(Field { number, value })
    }

    fn read_varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first().ok_or(Malformed)?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte holds the one bit that is left of 64.
            if shift == 63 && bits > 1 {
                return Err(Malformed);
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<Field<'_>>, Malformed> {
        fields(bytes).collect()
    }

    #[test]
    fn fields_of_each_kind_are_read() {
        let message = [8, 0x96, 1, 0x12, 2, b'h', b'i', 0x19, 0, 0, 0, 0, 0, 0, 0, 0, 0x25, 0, 0, 0, 0];
        let fields = read(&message).unwrap();
        assert_eq!(fields[0], Field { number: 1, value: Value::Varint(150) });
        assert_eq!(fields[1].text(), Ok("hi"));
        assert_eq!((fields[2].value, fields[3].value), (Value::Fixed64, Value::Fixed32));
    }

    #[test]
    fn messages_that_break_the_format_are_refused() {
        for (bytes, why) in [
            (&[0x0a][..], "length missing"),
            (&[0x0a, 2, 1], "content cut"),
            (&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], "length of 2^64 - 1"),
            (&[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], "varint over 64 bits"),
            (&[8, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0], "varint of eleven bytes"),
            (&[0, 0], "field number 0"),
            (&[0x0b], "group"),
            (&[0x0e], "wire type 6"),
        ] {
            assert_eq!(read(bytes), Err(Malformed), "{why}");
        }
    }
}
