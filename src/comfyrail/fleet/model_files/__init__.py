"""The model files of workers whose disk is ours: fetched, checked, kept within a limit [5.8]."""
