"""Pictures, sounds and videos as values: Pillow, OpenCV, scikit-image. Reading and writing them is in `files`."""

ROWS = """\
returns=image
    PIL.Image: new fromarray frombytes merge blend composite alpha_composite
    PIL.ImageOps PIL.ImageEnhance PIL.ImageFilter PIL.ImageFont PIL.ImageColor PIL.ImageChops: *
returns=canvas
    PIL.ImageDraw: Draw ImageDraw
mutates=self
    <canvas>: text line rectangle ellipse polygon point arc multiline_text
    <image>: paste putpixel putdata thumbnail load putpalette putalpha
returns=image
    <image>: resize convert crop rotate transpose copy filter quantize point split resample reduce
-
    <image>: getpixel getdata getbbox tobytes histogram getextrema
traits=attribute
    <image>: size width height mode format info
effects=shows
    <image>: show
returns=ndarray device=host
    cv2: resize cvtColor addWeighted applyColorMap blur GaussianBlur bilateralFilter Canny warpAffine warpPerspective
        getRotationMatrix2D flip rotate threshold dilate erode merge split absdiff bitwise_and bitwise_or bitwise_not
        copyMakeBorder normalize equalizeHist findContours connectedComponents morphologyEx imdecode imencode
        getStructuringElement remap undistort Sobel Laplacian distanceTransform contourArea boundingRect hconcat vconcat
        getTextSize VideoWriter_fourcc VideoWriter.fourcc createCLAHE medianBlur filter2D
traits=attribute same=yes
    cv2: COLOR_* INTER_* IMREAD_* BORDER_* FONT_* LINE_* NORM_*
mutates=0
    cv2: rectangle circle line putText polylines fillPoly ellipse drawContours arrowedLine drawMarker fillConvexPoly
effects=changes_library
    cv2: setNumThreads setUseOptimized ocl.setUseOpenCL setRNGSeed
effects=shows
    cv2: imshow waitKey destroyAllWindows namedWindow destroyWindow
returns=ndarray device=host
    skimage: *
effects=draws_numpy returns=ndarray device=host
    skimage.util: random_noise
returns=ndarray device=host
    librosa colorsys: *
    pycocotools.mask: *
effects=reads_files
    pycocotools.coco: COCO
"""
