//! The one table of error codes, and the error that carries one to the user.
//!
//! Numbers are those of TDengine where it has one (its clients test them), else from `0x6F00` upwards. A number is
//! never reused.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// What the reader of an error should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Correct the statement, value or option.
    Invalid,
    /// The thing named does not exist.
    NotFound,
    /// The thing named exists already.
    Exists,
    /// Ask for the right, or log in.
    Denied,
    /// Something else holds it: end that first, or try again.
    Busy,
    /// The service cannot do it just now: try again.
    Unavailable,
    /// A configured or built-in limit is reached.
    Limit,
    /// The consumer's own state forbids the call.
    State,
    /// Stored data is damaged or from another version: an operator has to look.
    Damaged,
    /// Not built.
    Unsupported,
    /// A fault of ours.
    Internal,
}

macro_rules! codes {
    ($($name:ident = $number:literal, $kind:ident, $retry:literal, $message:literal, $help:literal;)+) => {
        /// An error code; the number is the low 16 bits of TDengine's wire value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code { $(#[doc = $message] $name),+ }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The number.
            #[must_use]
            pub const fn number(self) -> u16 {
                match self { $(Self::$name => $number),+ }
            }

            /// What the reader should do.
            #[must_use]
            pub const fn kind(self) -> ErrorKind {
                match self { $(Self::$name => ErrorKind::$kind),+ }
            }

            /// Whether the same request may succeed later.
            #[must_use]
            pub const fn may_retry(self) -> bool {
                match self { $(Self::$name => $retry),+ }
            }

            /// The fixed text that clients know it by.
            #[must_use]
            pub const fn message(self) -> &'static str {
                match self { $(Self::$name => $message),+ }
            }

            /// How to mend it, in a line; empty where the message says it all.
            #[must_use]
            pub const fn help(self) -> &'static str {
                match self { $(Self::$name => $help),+ }
            }
        }
    };
}

codes! {
    // connection and service
    Unreachable = 0x000B, Unavailable, true, "Unable to establish connection", "check the address and that the server runs";
    NotSupported = 0x0100, Unsupported, false, "Operation not supported", "docs/sql.md lists what is";
    OutOfMemory = 0x0102, Unavailable, true, "Out of Memory", "narrow the query, or raise query_memory_bytes in the configuration";
    OutOfRange = 0x0112, Invalid, false, "Out of range", "";
    InvalidParameters = 0x0118, Invalid, false, "Invalid parameters", "";
    InvalidTimestamp = 0x0127, Invalid, false, "Invalid timestamp format", "write 'YYYY-MM-DD HH:MM:SS.fff' or epoch ticks";
    NoDiskSpace = 0x012B, Unavailable, true, "No disk space", "free space on the data directory's file system, then try again";
    ShuttingDown = 0x0131, Unavailable, true, "Database is closing down", "connect again when it is back";
    InvalidOperation = 0x0200, Invalid, false, "Invalid operation", "";
    InvalidUserName = 0x0207, Invalid, false, "Invalid user name", "";
    DatabaseNameTooLong = 0x0209, Invalid, false, "Database name too long", "at most 64 bytes";
    TableNameTooLong = 0x020A, Invalid, false, "Table name too long", "at most 192 bytes";
    Terminated = 0x020F, State, false, "Query terminated", "";
    InsertSyntax = 0x0216, Invalid, false, "syntax error", "";
    SqlTooLong = 0x0219, Limit, false, "SQL statement too long", "send smaller batches, use the columnar writer, or raise the setting maxSQLLength";
    InvalidColumnLength = 0x021F, Invalid, false, "Invalid column length", "";
    InvalidEncoding = 0x0231, Invalid, false, "Invalid encode", "";
    InvalidCompression = 0x0233, Invalid, false, "Invalid compress", "";
    // users
    NoPrivilege = 0x0303, Denied, false, "Insufficient privilege for operation", "ask root for the right";
    UserDisabled = 0x0315, Denied, false, "User is disabled", "";
    VgroupNotExist = 0x0332, NotFound, false, "Vgroup does not exist", "";
    UserExists = 0x0350, Exists, false, "User already exists", "";
    UserNotExist = 0x0351, NotFound, false, "Invalid user", "SHOW USERS lists them";
    InvalidPasswordFormat = 0x0353, Invalid, false, "Invalid password format", "8 to 255 characters of at least three classes";
    AuthFailure = 0x0357, Denied, false, "Authentication failure", "check user and password";
    // catalogue
    StableExists = 0x0360, Exists, false, "STable already exists", "use IF NOT EXISTS or another name";
    StableNotExist = 0x0362, NotFound, false, "STable not exist", "SHOW STABLES lists them";
    TagExists = 0x0369, Exists, false, "Tag already exists", "";
    TagNotExist = 0x036A, NotFound, false, "Tag does not exist", "DESCRIBE lists them";
    ColumnExists = 0x036B, Exists, false, "Column already exists", "";
    ColumnNotExist = 0x036C, NotFound, false, "Column does not exist", "DESCRIBE lists them";
    FunctionNotExist = 0x0374, NotFound, false, "Func not exists", "docs/sql.md lists the functions";
    DatabaseExists = 0x0381, Exists, false, "Database already exists", "use IF NOT EXISTS or another name";
    InvalidDatabaseOptions = 0x0382, Invalid, false, "Invalid database options", "";
    DatabaseDropping = 0x0386, Busy, true, "Database in dropping status", "another session drops it";
    DatabaseNotExist = 0x0388, NotFound, false, "Database not exist", "SHOW DATABASES lists them";
    OptionsNotChanged = 0x038A, Invalid, false, "Database options not changed", "";
    WalRetentionZero = 0x038C, Invalid, false, "WAL retention period is zero", "ALTER DATABASE .. WAL_RETENTION_PERIOD to more than 0";
    PrimaryTimestampDrop = 0x03C2, Invalid, false, "Primary timestamp column cannot be dropped",
        "drop the table instead";
    SingleStableMode = 0x03C5, Limit, false, "Database is single stable mode", "";
    Conflict = 0x03D3, Busy, true, "Conflict transaction not completed", "try again";
    // topics and consumers
    TopicExists = 0x03E0, Exists, false, "Topic already exists", "use IF NOT EXISTS or another name";
    TopicNotExist = 0x03E1, NotFound, false, "Topic not exist", "SHOW TOPICS lists them";
    TopicQueryInvalid = 0x03E4, Invalid, false, "Topic with invalid query", "";
    TopicOptionInvalid = 0x03E5, Invalid, false, "Topic with invalid option", "";
    ConsumerNotExist = 0x03E6, State, false, "Consumer not exist", "subscribe again";
    GroupNotExist = 0x03E8, NotFound, false, "Subcribe not exist", "SHOW SUBSCRIPTIONS lists the groups";
    ConsumerNotReady = 0x03EA, Busy, true, "Consumer not ready", "a rebalance is under way: try again";
    TopicInUse = 0x03EB, Busy, false, "Topic subscribed cannot be dropped", "close its consumers or use FORCE";
    GroupInUse = 0x03EC, Busy, false, "Consumer group being used by some consumer", "close its consumers or use FORCE";
    TopicMustDrop = 0x03ED, Busy, false, "Topic must be dropped first", "DROP TOPIC first";
    SubscribeOptionInvalid = 0x03EE, Invalid, false, "Invalid subscribe option", "";
    TopicRebalancing = 0x03EF, Busy, true, "Topic being rebalanced", "try again";
    // shards
    InvalidVgroup = 0x0503, Unavailable, true, "Vnode is closed or removed", "";
    NoWritePermission = 0x0512, Denied, false, "No write permission", "";
    TableActionInvalid = 0x0524, Invalid, false, "Invalid table action", "";
    TableColumnExists = 0x0525, Exists, false, "Column already exists", "";
    TableColumnNotExist = 0x0526, NotFound, false, "Column does not exist", "DESCRIBE lists them";
    TableExists = 0x0603, Exists, false, "Table already exists", "use IF NOT EXISTS or another name";
    TimestampOutOfRange = 0x060B, Invalid, false, "Timestamp data out of range", "KEEP bounds the past, year 2970 the future (2262 in ns)";
    OtherStable = 0x061D, Invalid, false, "Table already exists in other super tables", "";
    NoCommittedOffset = 0x0A0D, State, false, "TQ no committed offset", "commit first, or use earliest or latest";
    // SQL
    Syntax = 0x2600, Invalid, false, "syntax error", "";
    IncompleteSql = 0x2601, Invalid, false, "Incomplete SQL statement", "";
    InvalidColumn = 0x2602, NotFound, false, "Invalid column name", "DESCRIBE lists the columns";
    TableNotExist = 0x2603, NotFound, false, "Table does not exist", "SHOW TABLES lists them";
    AmbiguousColumn = 0x2604, Invalid, false, "Column ambiguously defined", "put the table's name before it";
    WrongValueType = 0x2605, Invalid, false, "Invalid value type", "";
    NoAggregation = 0x2608, Invalid, false, "There mustn't be aggregation",
        "put the condition into HAVING, or aggregate in a subquery";
    OrderByPosition = 0x2609, Invalid, false, "ORDER BY item must be the number of a SELECT-list expression",
        "count the items of the SELECT list from 1";
    NotGroupBy = 0x260A, Invalid, false, "Not a GROUP BY expression",
        "add the column to GROUP BY or PARTITION BY, or put it into an aggregate such as LAST(column)";
    NotSelected = 0x260B, Invalid, false, "Not SELECTed expression",
        "ORDER BY of a SELECT DISTINCT or UNION takes what is selected";
    NotSingleGroup = 0x260C, Invalid, false, "Not a single-group group function",
        "put the column into an aggregate such as LAST(column), or add GROUP BY column";
    TagsNotMatched = 0x260D, Invalid, false, "Tags number not matched",
        "give as many values as tags; DESCRIBE lists the tags";
    InvalidTag = 0x260E, NotFound, false, "Invalid tag name", "DESCRIBE lists the tags";
    NameOrPasswordTooLong = 0x2610, Invalid, false, "Name or password too long", "";
    PasswordTooShort = 0x2611, Invalid, false, "Password too short or empty", "";
    IntervalTooSmall = 0x2615, Invalid, false, "Interval cannot be less than 1 tick", "";
    DatabaseNotSpecified = 0x2616, Invalid, false, "Database not specified", "USE a database or write db.table";
    InvalidIdentifier = 0x2617, Invalid, false, "Invalid identifier name", "";
    OtherDatabase = 0x2618, Invalid, false, "Corresponding super table not in this db", "";
    InvalidDatabaseOption = 0x2619, Invalid, false, "Invalid option", "";
    InvalidTableOption = 0x261A, Invalid, false, "Invalid table option", "";
    GroupByWithWindow = 0x2624, Invalid, false, "GROUP BY and WINDOW-clause can't be used together", "use PARTITION BY";
    NestedAggregates = 0x2627, Invalid, false, "Aggregate functions do not support nesting",
        "compute the inner one in a subquery";
    StateWindowType = 0x2628, Invalid, false, "Only support STATE_WINDOW on integer/bool/varchar column", "";
    StateWindowTag = 0x2629, Invalid, false, "Not support STATE_WINDOW on tag column", "";
    SessionGap = 0x262B, Invalid, false, "SESSION gap should be fixed time window, and greater than 0", "";
    SessionColumn = 0x262C, Invalid, false, "Only support SESSION on primary timestamp column", "";
    OffsetNegative = 0x262D, Invalid, false, "Interval offset cannot be negative", "";
    OffsetUnit = 0x262E, Invalid, false, "Cannot use 'year' as offset when interval is 'month'", "";
    OffsetTooLarge = 0x262F, Invalid, false, "Interval offset should be shorter than interval", "";
    SlidingCalendar = 0x2630, Invalid, false, "Does not support sliding when interval is natural month/year", "";
    SlidingTooLarge = 0x2631, Invalid, false, "sliding value no larger than the interval value", "";
    SlidingTooSmall = 0x2632, Invalid, false, "sliding value can not less than 1% of interval value", "";
    JsonTagOnly = 0x2633, Invalid, false, "Only one tag if there is a json tag", "";
    ResultColumns = 0x2634, Invalid, false, "Query block has incorrect number of result columns",
        "the SELECTs of a UNION have as many columns, of types that go together";
    IncorrectTimestamp = 0x2635, Invalid, false, "Incorrect TIMESTAMP value", "";
    NegativeOffset = 0x2637, Invalid, false, "soffset/offset can not be less than 0", "write 0 or more";
    SlimitWithoutPartition = 0x2638, Invalid, false, "slimit/soffset only available for PARTITION/GROUP BY query",
        "add PARTITION BY or GROUP BY, or use LIMIT";
    InvalidTopicQuery = 0x2639, Invalid, false, "Invalid topic query", "a topic takes projection, filter and scalar functions of one table";
    DropStableInBatch = 0x263A, Invalid, false, "Cannot drop super table in batch", "drop it by itself";
    FillRange = 0x263B, Invalid, false, "Start(end) time of query range required or time range too large",
        "FILL makes a row for each window: bound the time in WHERE, as in ts >= .. AND ts < .., or take a longer INTERVAL";
    DuplicateColumn = 0x263C, Invalid, false, "Duplicated column names", "";
    TagsTooLong = 0x263D, Limit, false, "Tags length exceeds max length", "at most 16384 bytes";
    RowTooLong = 0x263E, Limit, false, "Row length exceeds max length", "at most 65531 bytes";
    ColumnCount = 0x263F, Invalid, false, "Illegal number of columns", "";
    TooManyColumns = 0x2640, Limit, false, "Too many columns", "at most 4096";
    FirstColumn = 0x2641, Invalid, false, "First column must be timestamp",
        "begin the column list with a TIMESTAMP, the primary key";
    ColumnLength = 0x2642, Invalid, false, "Invalid binary/nchar column length", "";
    TagCount = 0x2643, Invalid, false, "Invalid number of tag columns", "1 to 128";
    PermissionDenied = 0x2644, Denied, false, "Permission denied or target object not exist", "ask root for the right; SHOW DATABASES lists what you may use";
    CountWindow = 0x2645, Invalid, false, "Size of Count window must exceed 1", "";
    RowTs = 0x2646, Invalid, false, "Invalid _c0 or _rowts expression", "";
    Timeline = 0x2647, Invalid, false, "Invalid timeline function", "";
    InvalidPassword = 0x2648, Invalid, false, "Invalid password", "";
    InvalidAlter = 0x2649, Invalid, false, "Invalid alter table statement", "";
    AlterTimestamp = 0x264A, Invalid, false, "Primary timestamp column cannot be dropped", "drop the table instead";
    AlterLength = 0x264B, Invalid, false, "Only binary/nchar column length could be modified, and the length can only be increased, not decreased", "";
    InvalidTbname = 0x264C, Invalid, false, "Invalid tbname pseudo column",
        "only tables have tbname: select it in the subquery to have it outside";
    InvalidFunction = 0x264D, Invalid, false, "Invalid function name", "";
    CommentTooLong = 0x264E, Limit, false, "Comment too long", "at most 1024 bytes";
    SelectListOnly = 0x264F, Invalid, false, "function(s) only allowed in SELECT list, cannot be mixed with non scalar functions or columns", "";
    WindowSubquery = 0x2650, Invalid, false, "Window query not supported, since no valid timestamp column included in the result of subquery", "";
    NothingLeft = 0x2651, Invalid, false, "No columns can be dropped", "";
    OnlyTagJson = 0x2652, Invalid, false, "Only tag can be json type", "";
    ValueTooLong = 0x2653, Invalid, false, "Value too long for column/tag", "shorten it or widen the column";
    DeleteWhere = 0x2655, Invalid, false, "The DELETE statement must only have a definite time window range",
        "the condition may bound the primary timestamp, as in ts >= .. AND ts < .., and test tags of a super table";
    FillNotAllowed = 0x2657, Invalid, false, "Fill not allowed", "";
    WindowPseudoColumn = 0x2658, Invalid, false, "Window pseudo column invalid",
        "_wstart, _wend and _wduration are there with INTERVAL only";
    WindowNotAllowed = 0x2659, Invalid, false, "Window not allowed", "";
    GroupByNotAllowed = 0x265B, Invalid, false, "Group by not allowed", "";
    InterpClause = 0x265D, Invalid, false, "Invalid interp clause", "";
    WindowFunction = 0x265E, Invalid, false, "Not valid function in window", "";
    SingleTable = 0x265F, Invalid, false, "Only support single table", "";
    InvalidSelected = 0x2661, Invalid, false, "Invalid SELECTed expression", "";
    TableInfo = 0x2662, NotFound, false, "Fail to get table info", "";
    DuplicateAlias = 0x2663, Invalid, false, "Not unique table/alias", "give each table an alias of its own";
    JoinInput = 0x2664, Invalid, false, "Join requires valid time series input", "";
    TagsPseudoColumn = 0x2665, Invalid, false, "_TAGS only for child/super table", "";
    NoPrimaryTimestamp = 0x2666, Invalid, false, "Subquery does not output primary timestamp column", "";
    InvalidUsage = 0x2667, Invalid, false, "Invalid usage of expr", "";
    SystemTable = 0x2669, Invalid, false, "System table not allowed", "";
    InvalidVarbinary = 0x266A, Invalid, false, "Invalid varbinary value", "\\x and an even number of hexadecimal digits, or plain text";
    PrimaryTimestampRequired = 0x2674, Invalid, false, "Valid primary timestamp required", "";
    OrderByExpression = 0x2675, Invalid, false, "Invalid expr in order by clause", "";
    KeyPosition = 0x2678, Invalid, false, "primary key column must be second column", "";
    KeyType = 0x2679, Invalid, false, "primary key column must be of type int, uint, bigint, ubigint, and varchar", "";
    KeyChange = 0x267A, Invalid, false, "primary key column can not be added, modified, and dropped", "a key is part of CREATE TABLE; make another table and copy the rows";
    KeyNull = 0x267B, Invalid, false, "Primary key column should not be null", "";
    RegexSyntax = 0x2681, Invalid, false, "Syntax error in regular expression", "";
    JoinCondition = 0x2701, Invalid, false, "primary timestamp equal condition is expected in join conditions",
        "join with ON a.ts = b.ts, further conditions joined by AND";
    CrossJoin = 0x2702, Unsupported, false, "not support cross join",
        "equate the primary timestamps: ON a.ts = b.ts, or WHERE a.ts = b.ts";
    JoinConditionUnsupported = 0x2703, Unsupported, false, "Not supported join conditions",
        "join with ON a.ts = b.ts, further conditions joined by AND";
    FunctionFailed = 0x2800, Invalid, false, "Function internal error", "";
    ParameterCount = 0x2801, Invalid, false, "Invalid number of parameters", "";
    ParameterType = 0x2802, Invalid, false, "Invalid parameter data type",
        "CAST makes another type of a value";
    ParameterValue = 0x2803, Invalid, false, "Invalid parameter value", "";
    DuplicateTimestamps = 0x2805, Invalid, false, "Duplicate timestamps not allowed in function", "use PARTITION BY tbname";
    WrongTimestamp = 0x2807, Invalid, false, "Func to_timestamp failed for wrong timestamp", "";
    TimestampFormat = 0x2808, Invalid, false, "Func to_timestamp failed for unsupported timestamp format", "DDD is not read";
    UnitInvalid = 0x280A, Invalid, false, "Invalid timzone format", "";
    UnitTooSmall = 0x280B, Invalid, false, "Time unit is too small", "";
    ParameterRange = 0x2811, Invalid, false, "Invalid parameter range", "";
    ParameterColumn = 0x2814, Invalid, false, "Parameter should have column", "";
    // lines
    LinePrecision = 0x3001, Invalid, false, "Invalid timestamp precision type", "times of lines are counted in h, m, s, ms, us or ns";
    LineFormat = 0x3002, Invalid, false, "Invalid data format", "";
    LineType = 0x3004, Invalid, false, "Not the same type as before", "";
    LineKey = 0x3006, Unsupported, false, "Can not insert data into table with primary key", "lines have no key; use INSERT or a writer";
    // consumers
    InvalidMessage = 0x4000, Invalid, false, "Invalid message", "";
    ConsumerMismatch = 0x4001, State, true, "Consumer mismatch", "the vgroup belongs to another consumer now";
    ConsumerClosed = 0x4002, State, false, "Consumer closed", "make a new consumer";
    ConsumerError = 0x4003, Internal, false, "Consumer error, to see log", "";
    TopicLimit = 0x4004, Limit, false, "Topic num out of range", "drop a topic or raise tmqMaxTopicNum";
    GroupLimit = 0x4005, Limit, false, "Group num out of range 100", "drop a group of the topic";
    SnapshotMode = 0x4006, State, false, "Can not operate in snapshot mode", "";
    OffsetOutOfRange = 0x4007, Invalid, false, "Offset out of range", "assignment() gives the range";
    VgroupNotAssigned = 0x4008, State, false, "VgId does not belong to this consumer", "assignment() lists what does";
    TopicNotAssigned = 0x4009, State, false, "Topic does not belong to this consumer", "subscription() lists what does";
    NeedAssignment = 0x4010, State, false, "Assignment or poll interface need to be called first", "";
    NoCommitted = 0x4011, State, false, "No committed info", "";
    ReplayVgroups = 0x4013, Invalid, false, "Replay need only one vgroup if subscribe super table",
        "make the topic over one child table, or the database with VGROUPS 1";
    ReplayKind = 0x4014, Invalid, false, "Replay is disabled if subscribe db or stable", "";
    SubscribeFirst = 0x4017, State, false, "Invalid status, please subscribe topic first", "";
    FetchTimeout = 0x401A, State, true, "fetch timeout", "poll again";
    // ours
    Io = 0x6F00, Unavailable, true, "input/output error", "look at the file, its rights and its disk";
    Damaged = 0x6F01, Damaged, false, "stored data is damaged", "tidemark wal verify names the place";
    NewerFormat = 0x6F02, Damaged, false, "written by a newer version", "start the version that wrote it, or a later one";
    DataDirLocked = 0x6F03, Busy, true, "data directory is in use", "stop the other server or choose another --data-dir";
    Overloaded = 0x6F04, Busy, true, "too many requests in flight", "try again in a moment";
    Internal = 0x6F05, Internal, false, "internal error", "please report it with the server's log";
    BadRequest = 0x6F06, Invalid, false, "malformed request", "";
    CsvCell = 0x6F07, Invalid, false, "cell does not fit its column", "mend the cell or use --on-error skip";
    InsecureListen = 0x6F08, Denied, false, "refusing to listen beyond loopback with the default password", "change root's password or give --insecure";
    InvalidConfig = 0x6F09, Invalid, false, "invalid configuration", "tidemark serve --print-config shows what is in force";
}

impl Code {
    /// The code with this number.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.iter().copied().find(|c| c.number() == number)
    }
}

/// A place in a text: line and column from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

impl Place {
    /// The place of the byte `offset` of `text`.
    #[must_use]
    pub fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let line = count(before.bytes().filter(|&b| b == b'\n').count()).saturating_add(1);
        let column = count(before.get(line_start..).unwrap_or_default().chars().count()).saturating_add(1);
        Self { line, column }
    }

    /// This place, of a part, in the whole where the part begins at `start`.
    #[must_use]
    pub const fn in_whole(self, start: Self) -> Self {
        let column = if self.line == 1 {
            start.column.saturating_add(self.column).saturating_sub(1)
        } else {
            self.column
        };
        Self { line: start.line.saturating_add(self.line).saturating_sub(1), column }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// An error on its way to the user.
#[derive(Clone, Debug)]
pub struct Error {
    code: Code,
    text: String,
    /// Where in the statement.
    place: Option<Place>,
    /// Where the statement stands, in place of `place`.
    location: Option<String>,
    hint: Option<String>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// A result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The code's own message and nothing else.
    #[must_use]
    pub fn of(code: Code) -> Self {
        Self { code, text: code.message().to_owned(), place: None, location: None, hint: None, source: None }
    }

    /// The code's message with `detail` behind a colon: `Invalid column name: v2`.
    #[must_use]
    pub fn with(code: Code, detail: impl fmt::Display) -> Self {
        Self {
            code,
            text: format!("{}: {detail}", code.message()),
            place: None,
            location: None,
            hint: None,
            source: None,
        }
    }

    /// A text of its own under `code`.
    #[must_use]
    pub fn text(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), place: None, location: None, hint: None, source: None }
    }

    /// Adds what it is about behind the text, as `name=value` pairs.
    #[must_use]
    pub fn about(mut self, what: impl fmt::Display) -> Self {
        let separator = if self.text == self.code.message() { ": " } else { " " };
        self.text = format!("{}{separator}{what}", self.text);
        self
    }

    /// Adds where in the statement it is.
    #[must_use]
    pub const fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// Says where it is in words that take the place of [`at`](Self::at): only the caller knows which file it was.
    #[must_use]
    pub fn located(mut self, location: impl Into<String>) -> Self {
        self.location = Some(location.into());
        self
    }

    /// Adds how to mend it, in place of the code's own help.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds where in the statement it is, unless something closer to the fault has said so.
    #[must_use]
    pub const fn or_at(mut self, place: Option<Place>) -> Self {
        if self.place.is_none() {
            self.place = place;
        }
        self
    }

    /// Adds the hint of a name among `known` that is `name` but for its case, if there is one.
    #[must_use]
    pub fn hint_case<'a>(self, name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let meant = known.into_iter().find(|known| *known != name && known.eq_ignore_ascii_case(name));
        match meant {
            Some(meant) => self.hint(format!("there is `{meant}`: names keep their case in backticks only")),
            None => self,
        }
    }

    /// Adds the cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// A fault of ours.
    #[must_use]
    pub fn internal(detail: impl fmt::Display) -> Self {
        Self::with(Code::Internal, detail)
    }

    /// "not supported" that names the construct.
    #[must_use]
    pub fn not_supported(construct: impl fmt::Display) -> Self {
        Self::with(Code::NotSupported, construct)
    }

    /// The code.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.code
    }

    /// What failed and where, without code and cure.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.text
    }

    /// Where in the statement it is, where that is known.
    #[must_use]
    pub const fn place(&self) -> Option<Place> {
        self.place
    }

    /// How to mend it; empty where nothing is known beyond the message.
    #[must_use]
    pub fn help(&self) -> &str {
        self.hint.as_deref().unwrap_or_else(|| self.code.help())
    }

    /// Whether the same request may succeed later.
    #[must_use]
    pub const fn may_retry(&self) -> bool {
        self.code.may_retry()
    }
}

impl fmt::Display for Error {
    /// `error[0x2603]: what; where; how to mend`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{:#06x}]: {}", self.code.number(), self.text)?;
        match (&self.location, self.place) {
            (Some(location), _) => write!(f, "; {location}")?,
            (None, Some(place)) => write!(f, "; at {place}")?,
            (None, None) => {}
        }
        if !self.help().is_empty() {
            write!(f, "; {}", self.help())?;
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_are_unique() {
        let numbers: BTreeSet<u16> = Code::ALL.iter().map(|c| c.number()).collect();
        assert_eq!(numbers.len(), Code::ALL.len());
        assert_eq!(Code::from_number(0x2603), Some(Code::TableNotExist));
        assert_eq!(Code::from_number(0), None);
    }

    #[test]
    fn reads_as_scripts_expect() {
        let error = Error::with(Code::TableNotExist, "zz");
        assert_eq!(error.to_string(), "error[0x2603]: Table does not exist: zz; SHOW TABLES lists them");
        let error = Error::of(Code::IncompleteSql);
        assert_eq!(error.to_string(), "error[0x2601]: Incomplete SQL statement");
        let error = error.at(Place { line: 2, column: 5 }).hint("go on");
        assert_eq!(error.to_string(), "error[0x2601]: Incomplete SQL statement; at line 2, column 5; go on");
        let error = error.located("in a.sql");
        assert_eq!(error.to_string(), "error[0x2601]: Incomplete SQL statement; in a.sql; go on");
    }

    #[test]
    fn a_place_in_a_part_is_a_place_in_the_whole() {
        let whole = "one;\n  zwei größer\n drei";
        let start = Place::of(whole, 7);
        assert_eq!(start, Place { line: 2, column: 3 });
        let part = whole.get(7..).unwrap();
        for offset in [0, 5, 9, part.len() - 4, part.len()] {
            assert_eq!(Place::of(part, offset).in_whole(start), Place::of(whole, 7 + offset), "{offset}");
        }
    }
}
