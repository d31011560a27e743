"""Workflows in ComfyUI's formats: conversion both ways, and where they are found [1.1]."""
