"""Builtins, containers, strings, and the parts of the standard library that compute, draw, wait or look around."""

ROWS = """\
# --- builtins ---
returns=number traits=scalar
    -: abs bool complex float int round pow divmod
returns=number rows=count traits=shape_only
    -: len
    operator: length_hint
returns=number rows=sum
    -: sum
returns=number rows=extreme
    -: max min any all
returns=string
    -: ascii bin chr format hex oct repr str
    string: capwords
    textwrap: dedent fill indent shorten wrap
returns=number same=no
    -: id hash
returns=number
    -: ord
returns=bytes
    -: bytes bytearray memoryview
returns=number traits=shape_only same=yes
    -: callable hasattr isinstance issubclass
same=yes
    -: type
-
    -: getattr vars dir slice object super help copyright
    -: Exception BaseException ValueError TypeError KeyError IndexError RuntimeError NotImplementedError AttributeError
    -: StopIteration KeyboardInterrupt OSError IOError FileNotFoundError FileExistsError AssertionError ImportError
    -: ModuleNotFoundError ZeroDivisionError OverflowError MemoryError SystemExit Warning UserWarning
    -: DeprecationWarning RuntimeWarning FutureWarning FloatingPointError ArithmeticError LookupError NameError
    -: EOFError EnvironmentError BlockingIOError BrokenPipeError BufferError BytesWarning ChildProcessError
        ConnectionAbortedError ConnectionError ConnectionRefusedError ConnectionResetError EncodingWarning GeneratorExit
        ImportWarning IndentationError InterruptedError IsADirectoryError NotADirectoryError PendingDeprecationWarning
        PermissionError ProcessLookupError RecursionError ReferenceError ResourceWarning StopAsyncIteration SyntaxError
        SyntaxWarning SystemError TabError TimeoutError UnboundLocalError UnicodeDecodeError UnicodeEncodeError
        UnicodeError UnicodeTranslateError UnicodeWarning
mutates=0 keeps=2
    -: setattr
mutates=0
    -: delattr
returns=dict traits=reads_variables
    -: globals locals
effects=runs_code traits=reads_variables
    -: exec
effects=runs_code traits=reads_named
    -: eval
effects=runs_code traits=imports
    -: __import__
    importlib: import_module
traits=binds
    types: MethodType
effects=runs_code
    -: compile
    importlib: reload
    importlib.util: module_from_spec spec_from_file_location
    runpy: run_path run_module
effects=runs_code traits=configured
    hydra.utils: instantiate call get_class get_method get_object
effects=reads_input+prints returns=string
    -: input raw_input
    getpass: getpass
effects=reads_input+runs_code
    -: breakpoint
    pdb ipdb pudb wdb: set_trace
    IPython: embed
    code: interact
returns=stream traits=attribute
    sys: stdout stderr __stdout__ __stderr__
effects=prints
    -: print
    pprint: pprint pp
    sys.stdout sys.stderr: write writelines flush
    traceback: print_exc print_exception print_stack print_tb
    click: echo secho
    rich: print
effects=exits
    -: exit quit
    sys: exit
    os: _exit abort

# --- decorators ---
traits=keeps_signature
    -: property staticmethod classmethod
    abc: abstractmethod
    functools: wraps lru_cache cache cached_property
    typing: overload final no_type_check
    torch.jit: export
traits=keeps_signature+left_to_python
    torch.jit: ignore unused
traits=keeps_signature+compiles
    torch.jit: script_method script_if_tracing

+ traits=remembers
    functools: lru_cache cache cached_property

# --- iteration ---
role=iteration passes=enumerate returns=iterator
    -: enumerate
role=iteration passes=zip returns=iterator traits=stops
    -: zip
role=iteration passes=zip returns=iterator
    itertools: zip_longest
role=iteration passes=same returns=iterator
    -: iter
    -: reversed
role=iteration passes=same returns=list rows=each traits=keeps_items
    -: list
role=iteration passes=same returns=list rows=shuffles traits=keeps_items
    -: sorted
role=iteration passes=same returns=tuple rows=each traits=keeps_items
    -: tuple
role=iteration passes=same returns=set
    -: set
returns=set
    -: frozenset
role=iteration passes=filter returns=iterator effects=calls
    -: filter
role=iteration passes=chain returns=iterator
    itertools: chain chain.from_iterable
role=iteration passes=same returns=iterator traits=keeps_items
    itertools: cycle
role=iteration passes=same returns=iterator traits=stops
    itertools: islice
returns=iterator
    -: range xrange aiter
    itertools: count repeat product permutations combinations combinations_with_replacement tee pairwise compress
        batched
returns=iterator effects=calls
    -: map
    itertools: accumulate dropwhile filterfalse groupby starmap takewhile
mutates=0 passes=element
    -: next anext

# --- containers: `keeps` says which argument is in it afterwards ---
returns=dict traits=items
    -: dict
    collections: OrderedDict
returns=dict
    collections: ChainMap UserDict
    types: SimpleNamespace MappingProxyType
    argparse: Namespace
returns=dict traits=attributes
    easydict: EasyDict
    addict: Dict
    munch: Munch
returns=defaultdict
    collections: defaultdict
returns=counter
    collections: Counter
returns=deque
    collections: deque
returns=tuple
    collections: namedtuple
    typing: NamedTuple
mutates=self keeps=0
    <list>: append extend
    <deque>: appendleft extendleft
    <dict> <set> <counter>: update
    <set>: add
    <list> <deque>: __iadd__
mutates=self keeps=1
    <list>: insert
    <list> <dict>: __setitem__
mutates=self keeps=1 returns=argument passes=element
    <dict>: setdefault
mutates=self
    <list>: clear remove __delitem__
    <deque>: rotate
    <dict>: clear popitem __delitem__ move_to_end
    <set>: clear pop remove discard difference_update intersection_update symmetric_difference_update
    <counter>: subtract
mutates=self passes=element
    <list>: pop
    <dict>: pop
    <deque>: popleft
mutates=self rows=along
    <list>: sort reverse
returns=list passes=same
    <list>: copy
    <counter>: most_common
returns=number
    <list> <tuple> <string>: count index
    <dict> <set> <list>: __contains__
returns=dict passes=same
    <dict>: copy
returns=dict
    <dict>: fromkeys
returns=iterator traits=view passes=items
    <dict>: items
returns=iterator traits=view passes=values
    <dict>: values
returns=iterator traits=view passes=keys
    <dict>: keys
    <counter>: elements
returns=number rows=sum
    <counter>: total
passes=element
    <dict>: get
-
    <dict>: __getitem__
    <list> <tuple>: __getitem__
returns=set
    <set>: copy difference intersection symmetric_difference union
returns=number
    <set>: isdisjoint issubset issuperset
mutates=0 keeps=1
    bisect: insort insort_left insort_right
    heapq: heappush
mutates=0
    heapq: heappop heapify heapreplace heappushpop
returns=list
    heapq: nlargest nsmallest merge
returns=number
    bisect: bisect bisect_left bisect_right

# --- strings, bytes, numbers ---
returns=string
    <string>: capitalize casefold center expandtabs format format_map join ljust lower lstrip replace removeprefix
        removesuffix rjust rstrip strip swapcase title translate upper zfill
    <bytes>: decode hex
returns=list
    <string>: split rsplit splitlines
returns=tuple
    <string>: partition rpartition
returns=number
    <string>: endswith find isalnum isalpha isdecimal isdigit isidentifier islower isnumeric isspace istitle isupper
        isascii isprintable rfind rindex startswith
returns=bytes
    <string>: encode
    <number>: to_bytes
returns=number
    <number>: bit_length is_integer conjugate as_integer_ratio
-
    <iterator>: __iter__
mutates=self passes=element
    <iterator>: __next__ next
    <generator>: __next__ next
mutates=self
    <iterator> <generator>: send throw close
returns=number traits=attribute
    <number>: real imag

# --- numbers ---
returns=number traits=scalar
    math: acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees erf erfc exp exp2 expm1 fabs
        factorial floor fma fmod frexp gamma gcd hypot isclose isfinite isinf isnan isqrt lcm ldexp lgamma log log10
        log1p log2 modf nextafter perm pow radians remainder sin sinh sqrt tan tanh trunc ulp
    cmath: *
    decimal: Decimal
    fractions: Fraction
returns=number rows=sum
    math: fsum
returns=number
    math: dist prod sumprod
returns=number traits=attribute same=yes
    math: pi e inf nan tau
returns=number rows=mean
    statistics: mean fmean median median_low median_high stdev pstdev variance pvariance
returns=number
    statistics: mode multimode geometric_mean harmonic_mean quantiles
    difflib editdistance Levenshtein editdistance_s: *
traits=adds
    operator: add iadd
traits=copies
    copy: copy deepcopy
    dataclasses: asdict astuple replace
returns=context
    contextlib: nullcontext
effects=changes_library keeps=0
    contextlib: redirect_stdout redirect_stderr
returns=mock
    unittest.mock: Mock MagicMock NonCallableMock create_autospec
-
    operator: *
    functools: partial singledispatch total_ordering partialmethod cmp_to_key
    dataclasses: dataclass field fields make_dataclass is_dataclass
    enum abc typing typing_extensions types numbers: *
    <mock>: *
    contextlib: contextmanager suppress closing ExitStack asynccontextmanager
    inspect: signature getmembers isclass isfunction ismethod getfullargspec getsource getfile
    weakref: ref proxy WeakValueDictionary WeakKeyDictionary
effects=calls
    functools: reduce
    timeit: timeit repeat
returns=string
    re: escape
    base64: *
    json: dumps
    pprint: pformat
    html: escape unescape
    urllib.parse: quote unquote urlencode urljoin urlparse
    unicodedata: normalize category name
    hashlib: *
    binascii: crc32 hexlify unhexlify
    zlib: crc32 compress decompress adler32
    pickle: dumps
    traceback: format_exc format_exception
    inflect: *
    tabulate: tabulate
    prettytable: PrettyTable
    termcolor: colored
    colorama: init
-
    json pickle: loads
    ast: literal_eval parse
    re: compile match search sub split findall finditer fullmatch subn
    struct: pack unpack calcsize pack_into unpack_from
    toml tomllib tomli: loads
    string: Template Formatter
    <regex>: match search sub split findall finditer fullmatch
    <match>: group groups start end span groupdict
traits=attribute same=yes
    string: ascii_letters ascii_lowercase ascii_uppercase digits punctuation printable whitespace

# --- random numbers ---
effects=draws_python returns=number
    random: betavariate expovariate gammavariate gauss getrandbits lognormvariate normalvariate paretovariate randbytes
        randint random randrange triangular uniform vonmisesvariate weibullvariate binomialvariate
effects=draws_python
    random: choice
effects=draws_python returns=list rows=selects
    random: choices sample
effects=draws_python mutates=0 rows=shuffles
    random: shuffle
effects=seeds_python role=seed traits=own_seed
    random: seed
effects=seeds_python role=seed
    random: setstate
returns=tuple same=draw
    random: getstate
returns=python_random role=generator traits=own_seed
    random: Random
returns=python_random role=generator effects=draws_system traits=own_seed+no_seed
    random: SystemRandom
effects=draws_given mutates=self
    <python_random>: betavariate binomialvariate choice choices expovariate gammavariate gauss getrandbits
        lognormvariate normalvariate paretovariate randbytes randint random randrange sample triangular uniform
        vonmisesvariate weibullvariate
effects=draws_given mutates=self+0 rows=shuffles
    <python_random>: shuffle
effects=seeds_given mutates=self role=seed
    <python_random>: seed setstate
effects=draws_system returns=string
    secrets: token_hex token_urlsafe
effects=draws_system
    os: urandom getrandom
    secrets: *
    uuid: uuid4
    <python_random>: getstate
effects=reads_clock
    uuid: uuid1
returns=string
    uuid: uuid3 uuid5 UUID

# --- clocks, machines ---
role=clock effects=reads_clock returns=number
    time: time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time process_time_ns clock
        thread_time
    timeit: default_timer
    os: times
role=clock effects=reads_clock returns=string
    time: ctime strftime asctime      # of the time that is given, else of now
role=clock effects=reads_clock
    time: localtime gmtime
role=clock effects=reads_clock returns=datetime
    datetime: datetime.now datetime.today datetime.utcnow date.today
    pandas: Timestamp.now
    arrow pendulum: now utcnow
effects=sleeps
    time: sleep
returns=number
    time: mktime strptime
    calendar: timegm
returns=datetime
    datetime: datetime datetime.strptime datetime.fromtimestamp datetime.fromisoformat datetime.combine date time
        date.fromtimestamp date.fromisoformat timezone
returns=timedelta
    datetime: timedelta
returns=string
    <datetime>: strftime isoformat ctime
    <timedelta>: __str__
returns=number
    <datetime>: timestamp weekday isoweekday toordinal
    <timedelta>: total_seconds
returns=datetime
    <datetime>: replace astimezone date time
returns=number traits=attribute
    <datetime>: year month day hour minute second microsecond
    <timedelta>: days seconds microseconds
returns=number same=no
    os: getpid getppid getpgid getpgrp getloadavg
    threading: get_ident get_native_id current_thread active_count
    multiprocessing: current_process
    psutil: *
returns=string same=no
    platform: node uname
    socket: gethostname getfqdn gethostbyname
    os: uname
returns=string effects=reads_environment
    os: getlogin
    getpass: getuser
returns=tuple effects=reads_environment
    os shutil: get_terminal_size
returns=string
    platform: *
returns=number
    os: cpu_count sched_getaffinity getuid geteuid
    multiprocessing: cpu_count
    sys: getsizeof getrefcount getrecursionlimit getdefaultencoding getfilesystemencoding intern exc_info
    sys: is_finalizing _getframe
traits=attribute same=yes
    sys: version version_info platform maxsize executable byteorder
    os: name sep linesep pathsep curdir devnull
traits=attribute effects=reads_environment
    sys: argv path modules
effects=changes_library traits=handles_signals
    signal: signal
effects=changes_library
    sys: setrecursionlimit settrace setprofile
    gc: collect enable disable freeze set_threshold
    signal: alarm
    locale: setlocale
    faulthandler: enable
    os: nice umask setpgrp sched_setaffinity
    socket: setdefaulttimeout
    resource: setrlimit
effects=changes_library+calls
    atexit: register
returns=number
    gc: get_count isenabled get_objects
    resource: getrusage getrlimit

# --- environment, options ---
returns=settings
    configparser: ConfigParser RawConfigParser
effects=reads_files mutates=self
    <settings>: read
effects=writes_files
    <settings>: write
same=yes
    <settings>: get getboolean getint getfloat sections options has_option has_section items
effects=reads_environment returns=string asks=variable
    os: getenv environ.get environ.__getitem__
effects=reads_environment returns=string
    os: environ.copy environ.keys environ.items
effects=reads_environment traits=attribute returns=environ asks=variables
    os: environ
effects=changes_library
    os: putenv unsetenv environ.setdefault environ.update environ.pop environ.__setitem__
    dotenv: load_dotenv
effects=changes_library mutates=self keeps=0+1
    <environ>: setdefault update __setitem__ pop
effects=reads_environment returns=string asks=variable
    <environ>: get __getitem__
returns=parser
    argparse: ArgumentParser
    configargparse: ArgumentParser ArgParser
    optparse: OptionParser
mutates=self
    <parser>: add_argument add_option set_defaults add_mutually_exclusive_group add_argument_group add_subparsers
        add_parser set_name
effects=reads_environment+prints returns=namespace
    <parser>: parse_args parse_known_args parse_args_into_dataclasses
effects=prints
    <parser>: print_help print_usage
effects=exits+prints
    <parser>: error exit

# --- threads and processes ---
returns=thread effects=starts+calls
    threading: Thread Timer
returns=process effects=starts+calls
    multiprocessing: Process
returns=pool effects=starts+calls
    multiprocessing: Pool
    multiprocessing.pool: Pool ThreadPool
    concurrent.futures: ThreadPoolExecutor ProcessPoolExecutor
returns=queue
    queue: Queue LifoQueue PriorityQueue SimpleQueue
    multiprocessing: Queue SimpleQueue JoinableQueue
    asyncio: Queue
returns=lock
    threading multiprocessing: Lock RLock Semaphore BoundedSemaphore Condition
returns=lock traits=locks_processes
    filelock: FileLock SoftFileLock UnixFileLock WindowsFileLock
    fasteners: InterProcessLock InterProcessReaderWriterLock
    portalocker: Lock RLock TemporaryFileLock
effects=waits traits=locks_file
    fcntl: flock lockf
    portalocker: lock unlock
returns=event
    threading multiprocessing: Event Barrier
returns=number
    multiprocessing: Value Array RawValue RawArray
returns=context
    multiprocessing: get_context Manager Pipe
mutates=self keeps=0
    <connection>: send send_bytes
effects=waits same=no
    <connection>: recv recv_bytes
effects=changes_library
    multiprocessing: set_start_method freeze_support
    torch.multiprocessing: set_sharing_strategy
-
    threading: local
mutates=self effects=starts
    <thread>: start run
effects=waits
    <thread>: join
mutates=self
    <thread>: terminate kill close setDaemon
returns=number same=no
    <thread>: is_alive
traits=attribute same=no
    <thread>: pid exitcode name ident
mutates=self keeps=0 effects=waits
    <queue>: put put_nowait
mutates=self effects=waits same=no
    <queue>: get get_nowait
mutates=self effects=waits
    <queue>: join task_done shutdown
returns=number same=no
    <queue>: qsize empty full
mutates=self effects=waits
    <lock>: acquire __enter__
mutates=self
    <lock>: release notify notify_all __exit__
mutates=self
    <event>: set clear
effects=waits
    <event>: wait
    <lock>: wait wait_for
effects=calls+waits returns=list
    <pool>: map starmap imap imap_unordered apply
effects=calls
    <pool>: submit apply_async map_async
effects=waits mutates=self
    <pool>: shutdown join close terminate
effects=starts+waits+runs_code
    os: system popen fork execv execve execvp spawnl spawnv
    subprocess: run call check_call
    sh: *
effects=starts+waits+runs_code returns=string
    subprocess: check_output getoutput
effects=starts+waits+runs_code returns=tuple
    subprocess: getstatusoutput
effects=starts+runs_code returns=child
    subprocess: Popen
effects=waits
    <child>: wait communicate poll
returns=pipe traits=attribute
    <child>: stdin stdout stderr
mutates=self keeps=0
    <pipe>: write writelines flush close
effects=waits same=no
    <pipe>: read readline readlines
effects=changes_library+waits
    os: kill killpg wait waitpid
effects=starts+calls
    asyncio: run create_task gather get_event_loop
returns=pool effects=starts+calls
    joblib: Parallel
effects=calls
    joblib: delayed
effects=asks_network
    urllib.request: urlopen Request
    urllib urllib2: urlopen
    requests: *
    httpx: *
    socket: socket create_connection
    smtplib: *
returns=url_opener
    urllib urllib.request: URLopener FancyURLopener
effects=asks_network+writes_files
    urllib urllib.request: urlretrieve
    <url_opener>: retrieve
    wget gdown: download
    gdown: download_folder cached_download
    kaggle.api: *
effects=starts+changes_library
    signal: pause
    faulthandler: dump_traceback_later
effects=changes_library
    warnings: filterwarnings simplefilter resetwarnings
-
    warnings: catch_warnings

+ traits=picks
    random <python_random>: choice choices sample
+ traits=counts
    -: range xrange
    itertools: count
+ traits=endless
    itertools: count cycle
+ traits=truth
    -: bool any all
    math: isclose isfinite isinf isnan
    torch <tensor>: eq ge greater greater_equal gt isclose isfinite isinf isnan isneginf isposinf isreal le less
        less_equal logical_and logical_not logical_or logical_xor lt ne not_equal sgn sign signbit any all
    numpy: equal greater greater_equal isclose isfinite isinf isnan isreal less less_equal logical_and logical_not
        logical_or logical_xor not_equal sign any all
    <ndarray>: any all
+ traits=finite
    math torch <tensor> numpy: isfinite
+ traits=not_finite
    math torch <tensor> numpy: isnan isinf
    torch <tensor>: isneginf isposinf
+ traits=greater
    -: max
    numpy: fmax maximum
    torch <tensor>: fmax maximum
+ traits=less
    -: min
    numpy: fmin minimum
    torch <tensor>: fmin minimum
+ traits=like_argument
    -: abs divmod max min pow round sum
+ traits=takes_apart
    <string>: split rsplit splitlines partition rpartition replace removeprefix removesuffix
"""
