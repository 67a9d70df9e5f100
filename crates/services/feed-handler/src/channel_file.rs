//! Channel files: which products a feed channel carries and at which groups, in the form of CME's `config.xml`.
//!
//! ```xml
//! <configuration environment="Test">
//!   <channel id="310" label="Example futures">
//!     <products><product code="EX"><group code="EX"/></product></products>
//!     <connections>
//!       <connection id="310IA">
//!         <type feed-type="I">Incremental</type><protocol>UDP/IP</protocol>
//!         <ip>239.31.0.1</ip><host-ip>10.77.0.1</host-ip><port>14310</port><feed>A</feed>
//!       </connection>
//!     </connections>
//!   </channel>
//! </configuration>
//! ```
//! What the exchange may add one day (elements, attributes) is passed over, unless it looks like a known word misspelt.

use crate::source::datagram;
use crate::{ConfigError, FeedType, Side};
use barewire_text::{Place, nearest, suggest};
use roxmltree::{Document, Node};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// Bytes that a channel file may have; the exchange's have a third of a megabyte.
pub const CHANNEL_FILE_MAX: usize = 16 << 20;

/// A channel file that was read and checked.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ChannelFile {
    /// What the file says it is for: `Production`, say. Empty when it does not.
    pub environment: String,
    /// The channels, in the file's order.
    pub channels: Vec<FileChannel>,
}

/// One feed channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChannel {
    /// The exchange's number.
    pub id: u32,
    /// What the exchange calls it.
    pub label: String,
    /// Product codes.
    pub products: Vec<String>,
    /// Security groups of the products.
    pub groups: Vec<String>,
    /// Its lines.
    pub connections: Vec<Connection>,
}

/// One line of a feed channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The exchange's name, `310IA` say.
    pub id: String,
    /// Which feed.
    pub feed: FeedType,
    /// Which side.
    pub side: Side,
    /// The group that it is sent to; of a historical feed the server itself.
    pub to: SocketAddr,
    /// Who sends it; a source-specific join takes these. Empty: anybody.
    pub sources: Vec<IpAddr>,
}

/// Who sends what has no known sender: of the block for benchmarks (RFC 2544), and for documentation.
const NOBODY_V4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const NOBODY_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

impl Connection {
    /// Writes the Ethernet frame that carries `payload` to the group into `frame`, which is emptied first: what a capture holds of a
    /// packet of which there is only the payload. It is from the first of `sources`, without one from 198.18.0.1 or 2001:db8::1, which no network
    /// has. False, and nothing, for payloads that UDP cannot carry and for a sender of another family than the group.
    pub fn write_frame(&self, payload: &[u8], frame: &mut Vec<u8>) -> bool {
        let nobody = if self.to.is_ipv4() { IpAddr::V4(NOBODY_V4) } else { IpAddr::V6(NOBODY_V6) };
        let sender = SocketAddr::new(self.sources.first().copied().unwrap_or(nobody), self.to.port());
        datagram::emit(sender, self.to, payload, frame)
    }
}

impl ChannelFile {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ConfigError`], with the place.
    pub fn read(path: &Path) -> Result<ChannelFile, ConfigError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: shown.clone(), source })?;
        ChannelFile::parse(&text, &shown)
    }

    /// Parses a file's text; `path` is for messages.
    ///
    /// # Errors
    /// [`ConfigError`], with the place.
    pub fn parse(text: &str, path: &str) -> Result<ChannelFile, ConfigError> {
        if text.len() > CHANNEL_FILE_MAX {
            let why = format!("{} bytes, more than {CHANNEL_FILE_MAX}", text.len());
            return Err(ConfigError::Whole { path: path.into(), what: "channel file".into(), why });
        }
        let document = Document::parse(text)
            .map_err(|e| ConfigError::Syntax { path: path.into(), message: e.to_string() })?;
        let reader = Reader { text, path };
        let root = document.root_element();
        reader.check_name(root, &["configuration"])?;
        if root.tag_name().name() != "configuration" {
            return Err(reader.at(root, shown(root), "the root element is <configuration>"));
        }
        let mut file = ChannelFile {
            environment: root.attribute("environment").unwrap_or_default().to_owned(),
            channels: Vec::new(),
        };
        for node in reader.children(root, &["channel"])? {
            let channel = reader.channel(node)?;
            if file.channels.iter().any(|other| other.id == channel.id) {
                return Err(reader.at(
                    node,
                    format!("channel {}", channel.id),
                    "a second channel of this id",
                ));
            }
            file.channels.push(channel);
        }
        if file.channels.is_empty() {
            return Err(reader.at(root, shown(root), "no <channel> in it"));
        }
        Ok(file)
    }

    /// The channel of that number.
    ///
    /// # Errors
    /// A sentence with the nearest number, and all that there are.
    pub fn channel(&self, id: u32) -> Result<&FileChannel, String> {
        self.channels.iter().find(|channel| channel.id == id).ok_or_else(|| {
            let known: Vec<String> = self.channels.iter().map(|channel| channel.id.to_string()).collect();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            format!("no such channel in the channel file; {}", suggest(&id.to_string(), &known))
        })
    }
}

impl FileChannel {
    /// The line of that feed and side.
    pub fn connection(&self, feed: FeedType, side: Side) -> Option<&Connection> {
        self.connections.iter().find(|c| (c.feed, c.side) == (feed, side))
    }
}

/// How an element is shown in a message.
fn shown(node: Node<'_, '_>) -> String {
    format!("<{}>", node.tag_name().name())
}

struct Reader<'a> {
    text: &'a str,
    path: &'a str,
}

impl Reader<'_> {
    fn at(&self, node: Node<'_, '_>, what: impl Into<String>, why: impl Into<String>) -> ConfigError {
        ConfigError::At {
            path: self.path.to_owned(),
            place: Place::of(self.text, node.range().start),
            what: what.into(),
            why: why.into(),
        }
    }

    /// Refuses a name that is a slip of a known one; any other unknown name may be the exchange's next idea.
    fn check_name(&self, node: Node<'_, '_>, known: &[&str]) -> Result<(), ConfigError> {
        let name = node.tag_name().name();
        if !known.contains(&name) && nearest(name, known.iter().copied()).is_some() {
            return Err(self.at(node, format!("unknown element <{name}>"), suggest(name, known)));
        }
        Ok(())
    }

    /// The child elements of the first of `names`; the others of `names` are known too.
    fn children<'a, 'i>(&self, node: Node<'a, 'i>, names: &[&str]) -> Result<Vec<Node<'a, 'i>>, ConfigError> {
        let mut found = Vec::new();
        for child in node.children().filter(Node::is_element) {
            self.check_name(child, names)?;
            if names.first().is_some_and(|name| child.has_tag_name(*name)) {
                found.push(child);
            }
        }
        Ok(found)
    }

    fn attribute<'a>(&self, node: Node<'a, '_>, name: &str) -> Result<&'a str, ConfigError> {
        node.attribute(name).ok_or_else(|| {
            let mut there = node.attributes().map(|a| a.name());
            let why = match there.find(|other| nearest(other, [name]).is_some()) {
                Some(other) => format!("the attribute `{name}` is missing; `{other}` is not known"),
                None => format!("the attribute `{name}` is missing"),
            };
            self.at(node, shown(node), why)
        })
    }

    fn channel(&self, node: Node<'_, '_>) -> Result<FileChannel, ConfigError> {
        let id = self.attribute(node, "id")?;
        let id = id.trim().parse().map_err(|_| {
            self.at(node, format!("<channel id=\"{id}\">"), "the id is a number from 0 to 4294967295")
        })?;
        let mut channel = FileChannel {
            id,
            label: node.attribute("label").unwrap_or_default().to_owned(),
            products: Vec::new(),
            groups: Vec::new(),
            connections: Vec::new(),
        };
        for products in self.children(node, &["products", "connections"])? {
            for product in self.children(products, &["product"])? {
                channel.products.push(self.attribute(product, "code")?.to_owned());
                for group in self.children(product, &["group"])? {
                    channel.groups.push(self.attribute(group, "code")?.to_owned());
                }
            }
        }
        for connections in self.children(node, &["connections", "products"])? {
            for entry in self.children(connections, &["connection"])? {
                let connection = self.connection(entry)?;
                let line = (connection.feed, connection.side);
                if let Some(other) = channel.connections.iter().find(|c| (c.feed, c.side) == line) {
                    let why = format!(
                        "channel {id} has feed {}{} already: connection {}",
                        connection.feed.letters(),
                        connection.side,
                        other.id
                    );
                    return Err(self.at(entry, format!("connection {}", connection.id), why));
                }
                channel.connections.push(connection);
            }
        }
        if channel.connections.is_empty() {
            return Err(self.at(node, format!("channel {id}"), "no <connection> in it"));
        }
        Ok(channel)
    }

    fn connection(&self, node: Node<'_, '_>) -> Result<Connection, ConfigError> {
        const PARTS: &[&str] = &["type", "protocol", "ip", "host-ip", "port", "feed"];
        let id = self.attribute(node, "id")?.to_owned();
        // One look for slips at all of them; then each is fetched by its name.
        self.children(node, PARTS)?;
        let all = |name: &str| node.children().filter(|c| c.has_tag_name(name)).collect::<Vec<_>>();
        let one = |name: &str| match all(name).as_slice() {
            [only] => Ok(*only),
            [] => Err(self.at(node, format!("connection {id}"), format!("<{name}> is missing"))),
            [_, second, ..] => {
                Err(self.at(*second, format!("connection {id}"), format!("a second <{name}>")))
            }
        };
        let kind = one("type")?;
        let letters = self.attribute(kind, "feed-type")?;
        let feed = self.word(kind, "feed-type", letters, FeedType::WORDS)?;
        let protocol = one("protocol")?;
        let wanted = if feed == FeedType::Historical { "TCP/IP" } else { "UDP/IP" };
        if text_of(protocol) != wanted {
            let what = format!("protocol `{}`", text_of(protocol));
            return Err(self.at(protocol, what, format!("a feed of type {letters} comes by {wanted}")));
        }
        let side_node = one("feed")?;
        let side = self.word(side_node, "feed", text_of(side_node), Side::WORDS)?;
        let mut sources = Vec::new();
        for host in all("host-ip") {
            sources.push(self.address(host)?);
        }
        let port_node = one("port")?;
        let port: u16 = text_of(port_node).parse().ok().filter(|port| *port != 0).ok_or_else(|| {
            self.at(port_node, format!("port `{}`", text_of(port_node)), "expected a number from 1 to 65535")
        })?;
        let ip = if feed == FeedType::Historical {
            // The server's own address; there is no group.
            *sources
                .first()
                .ok_or_else(|| self.at(node, format!("connection {id}"), "<host-ip> is missing"))?
        } else {
            let group = one("ip")?;
            let ip = self.address(group)?;
            if !ip.is_multicast() {
                let why = "no multicast group: IPv4 groups are 224.0.0.0 to 239.255.255.255";
                return Err(self.at(group, format!("ip `{ip}`"), why));
            }
            if let Some(other) = sources.iter().find(|source| source.is_ipv4() != ip.is_ipv4()) {
                return Err(self.at(
                    group,
                    format!("ip `{ip}`"),
                    format!("host-ip {other} is of another family"),
                ));
            }
            ip
        };
        Ok(Connection { id, feed, side, to: SocketAddr::new(ip, port), sources })
    }

    fn address(&self, node: Node<'_, '_>) -> Result<IpAddr, ConfigError> {
        let text = text_of(node);
        text.parse()
            .map_err(|_| self.at(node, format!("{} `{text}`", node.tag_name().name()), "not an IP address"))
    }

    fn word<T: Copy>(
        &self,
        node: Node<'_, '_>,
        what: &str,
        text: &str,
        words: &[(&str, T)],
    ) -> Result<T, ConfigError> {
        words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.at(node, format!("{what} `{text}`"), suggest(text, &known))
        })
    }
}

fn text_of<'a>(node: Node<'a, '_>) -> &'a str {
    node.text().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = include_str!("../testdata/channels.xml");

    #[test]
    fn the_sample_is_read_whole() {
        let file = ChannelFile::parse(GOOD, "channels.xml").unwrap();
        assert_eq!(file.environment, "Example");
        assert_eq!(file.channels.iter().map(|c| c.id).collect::<Vec<_>>(), [901, 902]);
        let channel = file.channel(901).unwrap();
        assert_eq!(channel.products, ["BWN", "BWB"]);
        assert_eq!(channel.groups, ["BW", "BX"]);
        assert_eq!(channel.connections.len(), 7);
        let a = channel.connection(FeedType::Incremental, Side::A).unwrap();
        assert_eq!((a.id.as_str(), a.to), ("901IA", "239.90.1.1:19011".parse().unwrap()));
        assert_eq!(a.sources, ["10.77.0.1".parse::<IpAddr>().unwrap()]);
        let history = channel.connection(FeedType::Historical, Side::A).unwrap();
        assert_eq!(history.to, "10.77.0.9:19019".parse().unwrap());
        assert!(channel.connection(FeedType::Historical, Side::B).is_none());
    }

    #[test]
    fn channels_that_are_not_there_are_named_with_the_nearest() {
        let file = ChannelFile::parse(GOOD, "x").unwrap();
        let why = file.channel(911).unwrap_err();
        assert!(why.contains("did you mean `901`") && why.contains("902"), "{why}");
    }

    #[test]
    fn what_is_wrong_is_shown_with_its_place_and_the_right_word() {
        let cases = [
            ("<configuration", "<konfiguration", "x"),
            ("feed-type=\"I\"", "feed-type=\"X\"", "feed-type `X`: "),
            ("feed-type=\"SMBO\"", "feed-type=\"SMBOO\"", "did you mean `SMBO`?"),
            ("feed-type=\"N\"", "feedtype=\"N\"", "`feed-type` is missing; `feedtype` is not known"),
            ("<feed>A</feed>", "<feed>C</feed>", "feed `C`: "),
            ("<port>19011</port>", "<port>0</port>", "port `0`: expected a number from 1 to 65535"),
            ("<port>19011</port>", "<prot>19011</prot>", "unknown element <prot>: did you mean `port`?"),
            ("<port>19011</port>", "", "connection 901IA: <port> is missing"),
            ("<port>19011</port>", "<port>1</port><port>2</port>", "a second <port>"),
            ("239.90.1.1<", "239.90.1.999<", "ip `239.90.1.999`: not an IP address"),
            ("239.90.1.1<", "10.0.0.1<", "no multicast group"),
            (
                "<host-ip>10.77.0.1</host-ip>",
                "<host-ip>fd77::1</host-ip>",
                "host-ip fd77::1 is of another family",
            ),
            ("UDP/IP", "TCP/IP", "a feed of type I comes by UDP/IP"),
            ("channel id=\"902\"", "channel id=\"901\"", "a second channel of this id"),
            ("channel id=\"902\"", "channel id=\"x\"", "the id is a number"),
            (
                "id=\"901IB\"><type feed-type=\"I\"",
                "id=\"901IB\"><type feed-type=\"N\"",
                "has feed NB already",
            ),
            ("</configuration>", "", "x"),
        ];
        for (right, wrong, expected) in cases {
            assert!(GOOD.contains(right), "{right}");
            let text = GOOD.replacen(right, wrong, 1);
            let error = ChannelFile::parse(&text, "channels.xml").unwrap_err().to_string();
            assert!(error.starts_with("channels.xml:"), "{error}");
            if expected != "x" {
                assert!(error.contains(expected), "{wrong}: {error}");
                let place = error["channels.xml:".len()..].split(':').next().unwrap();
                assert!(place.parse::<u32>().unwrap() > 1, "{error}");
            }
        }
    }

    #[test]
    fn what_the_exchange_may_add_is_passed_over() {
        let text = GOOD.replacen("<connections>", "<trading-hours zone=\"x\"/><connections>", 1);
        assert_eq!(ChannelFile::parse(&text, "x").unwrap(), ChannelFile::parse(GOOD, "x").unwrap());
    }

    #[test]
    fn no_cut_of_the_file_panics() {
        for end in (0..GOOD.len()).filter(|end| GOOD.is_char_boundary(*end)) {
            assert!(ChannelFile::parse(&GOOD[..end], "x").is_err() || end + 2 >= GOOD.len(), "{end}");
        }
    }
}
