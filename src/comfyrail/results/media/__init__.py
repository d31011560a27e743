"""Looking into files and converting them, in processes of their own: files are hostile."""
