//! What the views of all templates share.

use crate::{DecodeError, EncodeError, Message};

/// A typed view of one template's messages.
pub trait MessageView<'a>: Copy {
    /// The template's id.
    const TEMPLATE_ID: u16;
    /// The template's name.
    const NAME: &'static str;

    /// The view of `message`: the root block and every group are checked here, so that no accessor can fail.
    fn decode(message: &Message<'a>) -> Result<Self, DecodeError>;

    /// The version that the message was written by.
    fn version(&self) -> u16;

    /// Bytes behind the last part that this version knows: none, or what a later version has added.
    fn trailing(&self) -> &'a [u8];

    /// Writes the same message again, by the same version, at the start of `buf`. Padding becomes zero; what a version
    /// later than ours has added is not written. Returns the message's length, size field and header included.
    fn encode(&self, buf: &mut [u8]) -> Result<usize, EncodeError>;
}

/// The acting root block and what follows it, for a message of `template_id` of the schema `schema_id`.
///
/// # Errors
/// [`DecodeError`].
#[inline(always)]
pub fn root<'a>(
    message: &Message<'a>,
    template_id: u16,
    schema_id: u16,
) -> Result<(&'a [u8], &'a [u8]), DecodeError> {
    if message.template_id != template_id || message.schema_id != schema_id {
        return Err(misfit(message, template_id, schema_id));
    }
    let block_length = message.block_length;
    let Some((block, rest)) = message.body.split_at_checked(usize::from(block_length)) else {
        return Err(DecodeError::BlockPastEnd { block_length, left: message.body.len() });
    };
    Ok((block, rest))
}

/// The first bytes of the root block, which every version has.
///
/// # Errors
/// [`DecodeError::BlockTooShort`].
#[inline(always)]
pub fn first<'a, const N: usize>(message: &Message<'_>, whole: &'a [u8]) -> Result<&'a [u8; N], DecodeError> {
    whole.first_chunk().ok_or(DecodeError::BlockTooShort { block_length: message.block_length, needed: N })
}

#[cold]
#[inline(never)]
fn misfit(message: &Message<'_>, expected: u16, schema_id: u16) -> DecodeError {
    if message.schema_id != schema_id {
        DecodeError::ForeignSchema { schema_id: message.schema_id }
    } else {
        DecodeError::WrongTemplate { expected, found: message.template_id }
    }
}
