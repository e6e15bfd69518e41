// Tensors in files: safetensors, npy, npz and PNG, by name where the format has names.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "flambeau/tensor/tensor.h"

namespace flambeau::io {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using Texts = std::vector<std::pair<std::string, std::string>>;

/// The tensors of a file in its order; `metadata`, where given, gets the file's texts. Errors:
/// runtime for a file that is not whole or has a dtype that this build lacks.
NamedTensors load_safetensors(const std::string& path, Texts* metadata = nullptr);
/// Replaces the file in one step. Errors: type for complex128, which the format lacks.
void save_safetensors(const NamedTensors& tensors, const std::string& path,
                      const Texts& metadata = {});

Tensor load_npy(const std::string& path);
void save_npy(const Tensor& tensor, const std::string& path);
NamedTensors load_npz(const std::string& path);
void save_npz(const NamedTensors& tensors, const std::string& path, bool compressed = false);

/// uint8, [height, width] or [height, width, 1 or 3]; a value Error otherwise.
void save_png(const Tensor& image, const std::string& path);

}  // namespace flambeau::io
