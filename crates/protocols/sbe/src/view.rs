//! What the views of all templates share.

use crate::packet::SCHEMA_ID;
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

    /// Bytes behind the last group that this version knows: none, or what a later version has added.
    fn trailing(&self) -> &'a [u8];

    /// Writes the same message again, by the same version, at the start of `buf`. Padding becomes zero; what a version
    /// later than ours has added is not written. Returns the message's length, size field and header included.
    fn encode(&self, buf: &mut [u8]) -> Result<usize, EncodeError>;
}

/// The acting root block and what follows it, for a message of `template_id` whose first version takes `min` bytes.
#[inline(always)]
pub(crate) fn root<'a>(message: &Message<'a>, template_id: u16) -> Result<(&'a [u8], &'a [u8]), DecodeError> {
    if message.template_id != template_id || message.schema_id != SCHEMA_ID {
        return Err(misfit(message, template_id));
    }
    let block_length = message.block_length;
    let Some((block, rest)) = message.body.split_at_checked(usize::from(block_length)) else {
        return Err(DecodeError::BlockPastEnd { block_length, left: message.body.len() });
    };
    Ok((block, rest))
}

/// The first bytes of the root block, which every version has.
#[inline(always)]
pub(crate) fn first<'a, const N: usize>(
    message: &Message<'_>,
    whole: &'a [u8],
) -> Result<&'a [u8; N], DecodeError> {
    whole.first_chunk().ok_or(DecodeError::BlockTooShort { block_length: message.block_length, needed: N })
}

#[cold]
fn misfit(message: &Message<'_>, expected: u16) -> DecodeError {
    if message.schema_id != SCHEMA_ID {
        DecodeError::ForeignSchema { schema_id: message.schema_id }
    } else {
        DecodeError::WrongTemplate { expected, found: message.template_id }
    }
}

/// The enum over all templates.
macro_rules! any_message {
    ($($id:literal $name:ident)*) => {
        /// The typed view of a message of any template.
        #[derive(Clone, Copy, Debug)]
        #[allow(clippy::large_enum_variant)]
        #[non_exhaustive]
        pub enum AnyMessage<'a> {
            $(
                #[doc = concat!("Template ", $id, ".")]
                $name($name<'a>),
            )*
        }

        impl<'a> AnyMessage<'a> {
            /// The view of `message`. Another schema's messages and unknown templates have errors of their own.
            pub fn decode(message: &crate::Message<'a>) -> Result<Self, crate::DecodeError> {
                if message.schema_id != crate::SCHEMA_ID {
                    return Err(crate::DecodeError::ForeignSchema { schema_id: message.schema_id });
                }
                match message.template_id {
                    $($id => crate::MessageView::decode(message).map(AnyMessage::$name),)*
                    template_id => Err(crate::DecodeError::UnknownTemplate { template_id }),
                }
            }

            /// The template's id.
            pub fn template_id(&self) -> u16 {
                match self {
                    $(AnyMessage::$name(_) => $id,)*
                }
            }

            /// The template's name.
            pub fn name(&self) -> &'static str {
                match self {
                    $(AnyMessage::$name(_) => <$name<'_> as crate::MessageView<'_>>::NAME,)*
                }
            }

            /// The version that the message was written by.
            pub fn version(&self) -> u16 {
                match self {
                    $(AnyMessage::$name(view) => crate::MessageView::version(view),)*
                }
            }

            /// Bytes behind the last group that this version knows.
            pub fn trailing(&self) -> &'a [u8] {
                match self {
                    $(AnyMessage::$name(view) => crate::MessageView::trailing(view),)*
                }
            }

            /// Writes the same message again; see [`MessageView::encode`](crate::MessageView::encode).
            pub fn encode(&self, buf: &mut [u8]) -> Result<usize, crate::EncodeError> {
                match self {
                    $(AnyMessage::$name(view) => crate::MessageView::encode(view, buf),)*
                }
            }
        }
    };
}

pub(crate) use any_message;
