"""ComfyUI's folders, set up from its flags as its own start does it."""

import importlib
import itertools
from pathlib import Path
from typing import Any

import structlog

from comfyrail.engine.folders import Folders
from comfyrail.errors import ConfigurationError

log = structlog.get_logger(__name__)

OUTPUT_MODEL_FOLDERS = ("checkpoints", "clip", "vae", "diffusion_models", "loras")
"""Models that nodes save into the output folder are found there again."""


def prepare_comfyui_folders(checkout: Path, arguments: Any) -> Folders:
    """Extra model paths, and the folders for input, output and temp; temp is emptied.

    Raises ConfigurationError for a configuration that cannot be read and for unwritable folders.
    """
    paths: Any = importlib.import_module("folder_paths")
    _load_extra_paths(checkout, arguments)
    if arguments.output_directory:
        paths.set_output_directory(str(Path(arguments.output_directory).absolute()))
    for name in OUTPUT_MODEL_FOLDERS:
        paths.add_model_folder_path(name, str(Path(paths.get_output_directory()) / name))
    if arguments.input_directory:
        paths.set_input_directory(str(Path(arguments.input_directory).absolute()))
    if getattr(arguments, "user_directory", None):
        paths.set_user_directory(str(Path(arguments.user_directory).absolute()))
    if arguments.temp_directory:
        paths.set_temp_directory(str(Path(arguments.temp_directory).absolute() / "temp"))
    _drop_missing_pack_folders(paths)
    folders = Folders(
        input=Path(paths.get_input_directory()).resolve(),
        output=Path(paths.get_output_directory()).resolve(),
        temp=Path(paths.get_temp_directory()).resolve(),
    )
    _make(folders)
    return folders


def pack_folders() -> list[Path]:
    """Where ComfyUI looks for custom nodes."""
    paths: Any = importlib.import_module("folder_paths")
    return [Path(folder) for folder in paths.get_folder_paths("custom_nodes")]


def _load_extra_paths(checkout: Path, arguments: Any) -> None:
    found = [checkout / "extra_model_paths.yaml"]
    named = [Path(file) for file in itertools.chain(*(arguments.extra_model_paths_config or ()))]
    extra: Any = importlib.import_module("utils.extra_config")
    for file in [*(each for each in found if each.is_file()), *named]:
        try:
            extra.load_extra_path_config(str(file))
        except Exception as error:
            raise ConfigurationError(
                f"The extra model paths in {file} cannot be read: {error}", code="COMFYUI_FLAGS"
            ) from error


def _drop_missing_pack_folders(paths: Any) -> None:
    """ComfyUI's own loading of packs ends at a folder that is not there."""
    configured = paths.folder_names_and_paths["custom_nodes"][0]
    missing = [folder for folder in configured if not Path(folder).is_dir()]
    for folder in missing:
        log.warning("pack_folder_missing", path=folder)
        configured.remove(folder)


def _make(folders: Folders) -> None:
    try:
        folders.make()
    except OSError as error:
        raise ConfigurationError(
            f"ComfyUI's folders cannot be written ({error.filename or folders.output}): "
            f"{error.strerror}. Choose others with --output-directory, --input-directory and "
            "--temp-directory, or mend their permissions.",
            code="DATA_FOLDER_UNWRITABLE",
        ) from error
