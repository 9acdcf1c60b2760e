"""Files and folders: what reads, writes, moves and looks at them, in all libraries."""

ROWS = """\
# --- open, and what is opened ---
effects=reads_files+writes_files returns=file traits=opens     # its mode says which
    -: open
    io codecs gzip bz2 lzma tarfile: open
    os: fdopen
    tarfile: TarFile
    zipfile: ZipFile
    aiofiles fsspec smart_open: open
    h5py: File
    shelve dbm: open
    sqlite3: connect
    pandas: HDFStore
    tables: open_file
    netCDF4: Dataset
    zarr: open
    tensorflow.io: gfile.GFile
effects=reads_files+writes_files returns=file traits=opens+opens_to_write     # if there is a `map_size`
    lmdb: open
effects=writes_files returns=file traits=opens
    cv2: VideoWriter
    imageio: get_writer
    pandas: ExcelWriter
    tensorflow.io: TFRecordWriter
same=no returns=buffer      # another one in each process
    tempfile: NamedTemporaryFile TemporaryFile SpooledTemporaryFile
same=no returns=tuple effects=draws_system
    tempfile: mkstemp
same=no returns=string effects=draws_system
    tempfile: mkdtemp TemporaryDirectory
effects=reads_environment returns=string
    tempfile: gettempdir mktemp
returns=buffer
    io: StringIO BytesIO
returns=csv_writer keeps=0
    csv: writer DictWriter
returns=iterator effects=reads_files
    csv: reader DictReader
effects=writes_files mutates=self
    <file>: write writelines truncate
    <csv_writer>: writerow writerows writeheader
    <file>: create_dataset create_group put_record extractall extract writestr addfile
effects=writes_files mutates=self
    <file>: close flush __exit__ release append_data
effects=reads_files mutates=self
    <file>: read readline readlines readinto seek __iter__ __next__
returns=number
    <file>: tell fileno isatty readable writable seekable
returns=file
    <file>: __enter__
mutates=self
    <buffer>: write writelines seek truncate close flush read
returns=string
    <buffer>: getvalue getbuffer

# --- write a value ---
effects=writes_files
    numpy: save savez savez_compressed savetxt
    json pickle yaml toml tomli_w dill: dump
    pickle: Pickler
    yaml: safe_dump dump_all
    joblib: dump
    torch: save
    torch.jit: save
    torch.onnx: export
    torch.export: save
    safetensors.torch safetensors.numpy: save_file
    safetensors.torch: save_model
    torchvision.utils: save_image
    torchvision.io: write_png write_jpeg write_video write_file
    torchaudio: save
    pytorch_pfn_extras.training.extensions: snapshot snapshot_object LogReport PlotReport VariableStatisticsPlot
    scipy.io: savemat mmwrite
    scipy.io.wavfile: write
    scipy.misc: imsave
    scipy.sparse: save_npz
    imageio: imwrite imsave mimsave mimwrite volwrite
    cv2: imwrite imwritemulti
    skimage.io: imsave
    skvideo.io: vwrite
    soundfile: write
    librosa.output: write_wav
    nibabel: save
    SimpleITK: WriteImage
    tifffile: imwrite imsave
    pandas: to_pickle
    matplotlib.pyplot matplotlib.image: savefig imsave
    plotly.io: write_image write_html
    plotly.offline: plot
    trimesh.exchange.export: export_mesh
    omegaconf: OmegaConf.save
+ traits=pickles
    pickle dill joblib: dump
    torch: save
effects=writes_files mutates=self
    <dataset>: save_to_disk
effects=writes_files
    <frame>: to_csv to_excel to_pickle to_json to_parquet to_hdf to_feather to_sql
    <image>: save
    <figure>: savefig write_image write_html
    <model_card>: save
    <tokenizer>: save_pretrained
    <state>: save_pretrained
    <namespace>: save

# --- read a value ---
effects=reads_files
    json pickle yaml toml tomllib tomli dill: load
    pickle: Unpickler
    yaml: safe_load full_load load_all unsafe_load
    joblib: load
    torch: load
    torch.jit torch.export: load
    safetensors.torch safetensors.numpy: load_file
    safetensors.torch: load_model
    safetensors: safe_open
    hydra: initialize compose
    logging.config: fileConfig
effects=reads_files returns=namespace
    omegaconf: OmegaConf.load
effects=reads_files returns=ndarray device=host
    numpy: load loadtxt genfromtxt fromfile fromregex memmap lib.format.open_memmap
    scipy.io: loadmat mmread
    scipy.io.wavfile: read
    scipy.misc: imread
    scipy.sparse: load_npz
    imageio: imread mimread get_reader volread
    cv2: imread VideoCapture
    skimage.io: imread imread_collection
    soundfile: read info
    librosa: load
    tifffile: imread
    matplotlib.pyplot matplotlib.image: imread
effects=reads_files returns=tensor device=host
    torchaudio: load info
    torchvision.io: read_image read_video read_file decode_image
effects=reads_files returns=image
    PIL.Image: open
effects=reads_files
    nibabel: load
    SimpleITK: ReadImage ImageFileReader
    pydicom: dcmread read_file
    fitz: open
    decord: VideoReader
    trimesh: load
effects=reads_files returns=frame
    pandas: read_csv read_pickle read_json read_excel read_parquet read_hdf read_feather read_table read_sql read_fwf
    polars: read_csv read_parquet

# --- move, remove, create ---
effects=reads_files+writes_files
    shutil: copy copyfile copy2 copytree copyfileobj copymode copystat
-
    shutil: ignore_patterns
effects=writes_files
    shutil: move
    os: rename replace renames link symlink truncate chmod chown utime mkfifo
effects=writes_files traits=removes_folders
    shutil: rmtree
    os: rmdir removedirs
effects=writes_files
    shutil: make_archive unpack_archive chown
    os: remove unlink
effects=writes_files traits=makes_folders
    os: makedirs mkdir
    distutils.dir_util: mkpath
effects=writes_files
    os: write ftruncate sync fsync
effects=changes_library
    os: chdir fchdir
effects=writes_files traits=makes_folders
    <path>: mkdir
effects=writes_files
    <path>: touch unlink rename replace rmdir symlink_to hardlink_to chmod write_text write_bytes

# --- look ---
effects=reads_files returns=number
    os.path: exists isfile isdir islink getsize getmtime getctime getatime lexists samefile ismount
    os: access stat lstat
    shutil: disk_usage
effects=reads_files returns=string
    shutil: which
    os: getcwd getcwdb readlink
effects=reads_files returns=list
    os: listdir scandir walk fwalk
    glob: glob iglob
    os: read
returns=string
    os.path: join basename dirname splitext split normpath relpath commonpath commonprefix normcase splitdrive isabs
    os: fspath fsencode fsdecode
    fnmatch: fnmatch filter fnmatchcase translate
    glob: escape
effects=reads_environment returns=string
    os.path: expanduser expandvars realpath abspath
returns=path
    pathlib: Path PurePath PosixPath PurePosixPath
effects=reads_environment returns=path
    pathlib: Path.home Path.cwd
effects=reads_files returns=number
    <path>: exists is_file is_dir is_symlink stat lstat samefile is_mount owner
effects=reads_files returns=string
    <path>: read_text
effects=reads_files returns=bytes
    <path>: read_bytes
effects=reads_files returns=iterator
    <path>: glob rglob iterdir
effects=reads_files returns=path
    <path>: resolve absolute readlink
effects=reads_environment returns=path
    <path>: expanduser
effects=reads_files+writes_files returns=file traits=opens
    <path>: open
returns=path
    <path>: joinpath with_name with_stem with_suffix relative_to __truediv__
returns=string
    <path>: as_posix as_uri
returns=number
    <path>: is_absolute is_relative_to match is_reserved
returns=string traits=attribute
    <path>: name stem suffix anchor drive root
returns=path traits=attribute
    <path>: parent
returns=list traits=attribute
    <path>: parents parts suffixes

+ traits=copies_file
    shutil: copy copyfile copy2 copytree move
    os: rename replace link symlink
    <path>: rename replace
+ traits=removes
    shutil: move rmtree
    os: remove unlink rename replace rmdir removedirs
    <path>: unlink rename replace rmdir
+ traits=downloads
    urllib urllib.request: urlretrieve
    <url_opener>: retrieve
    wget gdown: download
    gdown: download_folder cached_download
    torch.hub: download_url_to_file
    torchvision.datasets.utils: download_url download_and_extract_archive download_file_from_google_drive
    shutil: unpack_archive
    <file>: extractall extract
+ traits=on_disk
    <file>: truncate
+ traits=looks
    os.path: exists isfile isdir islink lexists
    os: access
    <path>: exists is_file is_dir is_symlink
+ traits=lists
    os: listdir scandir walk fwalk
    glob: glob iglob
    <path>: glob rglob iterdir
    torchvision.datasets: ImageFolder DatasetFolder
+ traits=gives_names
    os: listdir
    glob: glob iglob
+ traits=gives_paths
    os: walk fwalk
    glob: glob iglob
    <path>: glob rglob iterdir
+ traits=by_pattern
    glob: glob iglob
    <path>: glob rglob
+ traits=ends_like_last
    os.path: join abspath expanduser expandvars realpath normpath normcase
    pathlib: Path PurePath PosixPath PurePosixPath
"""
