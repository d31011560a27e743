"""Node types that give the same for the same inputs: two equal nodes of them are one too many.

Only types that are known to be so are listed. A custom node may draw a number, read a clock or
ask a service, and its description does not say.
"""

from comfyrail.workflow.catalog import NodeType

_OF_THE_ENGINE = """
AddTextPrefix AddTextSuffix AdjustBrightness AdjustContrast BatchImagesNode BatchLatentsNode
BatchMasksNode CaseConverter CenterCropImages CheckerboardImage ComfySwitchNode CropMask
CustomCombo EmptyAceStepLatentAudio EmptyChromaRadianceLatentImage EmptyCosmosLatentVideo
EmptyFlux2LatentImage EmptyHunyuanImageLatent EmptyHunyuanLatentVideo EmptyHunyuanVideo15Latent
EmptyImage EmptyLTXVLatentVideo EmptyLatentAudio EmptyLatentHunyuan3Dv2 EmptyLatentImage
EmptyMochiLatentVideo EmptyQwenImageLayeredLatentImage EmptySD3LatentImage FeatherMask
FluxKontextImageScale GradientImage GrowMask ImageAddNoise ImageBatch ImageBlend ImageBlur
ImageColorToMask ImageCompositeMasked ImageCrop ImageDeduplication ImageFlip ImageFromBatch
ImageGrid ImageInvert ImagePadForOutpaint ImageQuantize ImageRGBToYUV ImageRotate ImageScale
ImageScaleBy ImageScaleToMaxDimension ImageScaleToTotalPixels ImageSharpen ImageStitch
ImageToMask ImageYUVToRGB InvertMask JoinImageWithAlpha LatentAdd LatentBatch
LatentBatchSeedBehavior LatentBlend LatentComposite LatentCompositeMasked LatentConcat
LatentCrop LatentCut LatentCutToBatch LatentFlip LatentFromBatch LatentInterpolate
LatentMultiply LatentRotate LatentSubtract LatentUpscale LatentUpscaleBy LoadImage
LoadImageDataSetFromFolder LoadImageMask LoadImageOutput LoadImageTextDataSetFromFolder
LoadLatent MaskComposite MaskToImage MergeImageLists MergeTextLists Morphology NoiseImage
NormalizeImages PorterDuffImageComposite PrimitiveBoolean PrimitiveFloat PrimitiveInt
PrimitiveString PrimitiveStringMultiline RandomCropImages RebatchImages RebatchLatents
RegexExtract RegexMatch RegexReplace RepeatImageBatch RepeatLatentBatch ReplaceText
ReplaceVideoLatentFrames ResizeAndPadImage ResizeImageMaskNode ResizeImagesByLongerEdge
ResizeImagesByShorterEdge SetLatentNoiseMask ShuffleDataset ShuffleImageTextDataset SolidMask
SplitImageWithAlpha StableCascade_EmptyLatentImage StringCompare StringConcatenate
StringContains StringLength StringReplace StringSubstring StringTrim StripWhitespace TextOnImage
TextToLowercase TextToUppercase ThresholdMask TrimVideoLatent TruncateText
"""
_OF_COMFYUI = """
AudioEncoderLoader BasicGuider BasicScheduler CFGGuider CLIPLoader CLIPSetLastLayer
CLIPTextEncode CLIPTextEncodeFlux CLIPTextEncodeHiDream CLIPTextEncodeHunyuanDiT
CLIPTextEncodeLumina2 CLIPTextEncodePixArtAlpha CLIPTextEncodeSD3 CLIPTextEncodeSDXL
CLIPTextEncodeSDXLRefiner CLIPVisionEncode CLIPVisionLoader Canny CheckpointLoader
CheckpointLoaderSimple ConditioningAverage ConditioningCombine ConditioningConcat
ConditioningSetArea ConditioningSetAreaPercentage ConditioningSetAreaStrength
ConditioningSetMask ConditioningSetTimestepRange ConditioningZeroOut ControlNetApply
ControlNetApplyAdvanced ControlNetLoader DiffControlNetLoader DiffusersLoader DisableNoise
DualCLIPLoader ExponentialScheduler FlipSigmas FluxGuidance GLIGENLoader HypernetworkLoader
ImageOnlyCheckpointLoader ImageUpscaleWithModel InpaintModelConditioning KSampler
KSamplerAdvanced KSamplerSelect KarrasScheduler LatentUpscaleModelLoader LoraLoader
LoraLoaderModelOnly ModelPatchLoader ModelSamplingAuraFlow ModelSamplingDiscrete
ModelSamplingFlux ModelSamplingSD3 PhotoMakerLoader QuadrupleCLIPLoader RandomNoise
ReferenceLatent SDTurboScheduler SamplerCustom SamplerCustomAdvanced SplitSigmas StyleModelApply
StyleModelLoader TextEncodeQwenImageEdit TextEncodeQwenImageEditPlus TripleCLIPLoader UNETLoader
UpscaleModelLoader VAEDecode VAEDecodeTiled VAEEncode VAEEncodeForInpaint VAEEncodeTiled
VAELoader unCLIPCheckpointLoader unCLIPConditioning
"""
"""Loaders, encoders, conditioning, samplers: where chance is in them, its seed is an input."""

DETERMINISTIC_TYPES = frozenset((_OF_THE_ENGINE + _OF_COMFYUI).split())

_SAVER_NAMES = """
SaveImage PreviewImage SaveLatent SaveAnimatedWEBP SaveAnimatedPNG SaveWEBM SaveVideo SaveAudio
SaveAudioMP3 SaveAudioOpus PreviewAudio MaskPreview SaveGLB SaveSVGNode CheckpointSave CLIPSave
VAESave ModelSave ImageOnlyCheckpointSave SaveImageWebsocket PreviewAny
"""
_SAVERS = frozenset(_SAVER_NAMES.split())
"""They write the graph beside what they save, and do nothing else with it."""

_SEES_THE_GRAPH = frozenset(("PROMPT", "DYNPROMPT", "EXTRA_PNGINFO"))


def may_merge(node_type: NodeType) -> bool:
    """Whether one of two equal nodes of this type can do the work of both."""
    if node_type.is_output or "UNIQUE_ID" in node_type.hidden:
        return False
    return node_type.pack is None and node_type.name in DETERMINISTIC_TYPES


def looks_at_the_graph(node_type: NodeType) -> bool:
    """Whether a node may look at other nodes by their ids, so that none of them may be changed."""
    if any(_takes_raw_link(port.spec) for port in node_type.inputs.values()):
        return True
    return node_type.name not in _SAVERS and not _SEES_THE_GRAPH.isdisjoint(node_type.hidden)


def _takes_raw_link(spec: tuple[object, ...]) -> bool:
    options = spec[1] if len(spec) > 1 else None
    return isinstance(options, dict) and bool(options.get("rawLink"))
